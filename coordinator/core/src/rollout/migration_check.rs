//! Checks migrations. In a network of thousands of nodes the checker takes part of a second for each step, and
//! nothing else is decided meanwhile. So a large migration is checked one step at a time, with urgent work in
//! between. No plan starts before its last step was found sound.
//!
//! All steps are checked in one network, and the verdict holds for that one alone. If something has changed by the
//! time that the verdict is used, such as a failed link or another running plan, the migration is planned and checked
//! again.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use reweave_check::{CourseCheck, Network, Unsound};
use reweave_common::fabric::{Circuits, Fabric};
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::migration_plan::{MigrationPlan, MigrationStep, Tables};
use reweave_common::plan::{Generation, Pin, Plan};

use super::effective_state::EffectiveState;
use super::forwarding_rules::lifted_and_set;
use super::rounds::between_pins;
use super::start::Hindrance;
use super::{DecisionContext, migration};
use crate::log::policy::Policy;
use crate::log::reason::Reason;
use crate::log::state::{Phase, State};
use crate::plan::migration::{NoSafeOrder, course};
use crate::plan::plan_check;

/// Next hops in a migration that is judged at once: a quarter of those that one step of the largest plan may have.
const MAX_HOPS_PER_TRIAL: usize = 1 << 16;
/// How often a changed network begins the trial again. After that all steps are judged at once, or a plan would never begin
/// where links come and go.
const MAX_CHANGES: u32 = 3;

/// The migrations of plans that have not begun.
#[derive(Debug, Clone)]
pub(crate) struct Judge {
    cases: BTreeMap<Generation, Case>,
    max_hops_at_once: usize,
}

#[derive(Debug, Clone)]
struct Case {
    trial: Arc<Trial>,
    /// How often the network has changed since the last verdict.
    changes: u32,
}

/// One migration, as far as it was checked.
#[derive(Debug, Clone)]
pub(super) struct Trial {
    plan: Plan,
    pub(super) basis: Basis,
    pub(super) course: MigrationPlan,
    /// What all steps are to lead to.
    wanted: (Tables, Circuits),
    check: CourseCheck,
    /// None while steps are left.
    pub(super) verdict: Option<Result<(), Vec<Unsound>>>,
}

/// Everything that the checker depends on besides the plan, the fabric and the policy.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Basis {
    /// The one in force, and the one that the plan has to name as its parent.
    generations: [Generation; 2],
    /// Those that are in force and stay: the others are lifted before all else, and new ones are set at the end.
    pins: Vec<Pin>,
    pub(super) around: EffectiveState,
    /// With those over circuits, and without.
    down: [BTreeSet<LinkId>; 2],
    /// Who has the addresses of pinned flows: since they were instructed, and by what is reported now.
    addresses: [BTreeMap<Ipv4Addr, NodeId>; 2],
}

impl Default for Judge {
    fn default() -> Self {
        Self::at_once(MAX_HOPS_PER_TRIAL)
    }
}

impl Judge {
    /// Longer migrations are judged step by step.
    pub(crate) fn at_once(max_hops_at_once: usize) -> Self {
        let cases = BTreeMap::new();
        Self {
            cases,
            max_hops_at_once,
        }
    }

    /// Whether a step waits to be judged.
    pub(crate) fn is_under_way(&self) -> bool {
        self.cases.values().any(|it| it.trial.verdict.is_none())
    }

    /// Judges one step. Whether a verdict came of it.
    pub(crate) fn check_next(&mut self, fabric: &Fabric, policy: &Policy) -> bool {
        let mut cases = self.cases.values_mut();
        let Some(case) = cases.find(|it| it.trial.verdict.is_none()) else {
            return false;
        };
        let trial = Arc::make_mut(&mut case.trial);
        trial.check_next(fabric, policy);
        trial.verdict.is_some()
    }

    /// Keeps those that may begin still.
    pub(crate) fn forget_ended(&mut self, state: &State) {
        let next = state.next_generation();
        let may_begin = |generation: Generation| {
            let rollout = state.rollout(generation);
            let waits = |phase: &Phase| matches!(phase, Phase::Proposed | Phase::Approved);
            rollout.map_or(generation == next, |it| waits(&it.phase))
        };
        self.cases.retain(|&generation, _| may_begin(generation));
    }

    fn is_at_once(&self, course: &MigrationPlan) -> bool {
        course.legs().nth(1).is_none() || hops(course) <= self.max_hops_at_once
    }

    /// A request needs this verdict, or waits for it.
    fn handle_asked(&mut self, trial: &Arc<Trial>) {
        let generation = trial.plan.generation;
        if self.is_at_once(&trial.course) {
            self.cases.remove(&generation);
            return;
        }
        let known = self.cases.get(&generation);
        let mut changes = known.map_or(0, |it| it.changes);
        if known.is_some_and(|it| !Arc::ptr_eq(&it.trial, trial)) {
            changes += 1;
        }
        if trial.verdict.is_some() {
            changes = 0;
        }
        let trial = Arc::clone(trial);
        self.cases.insert(generation, Case { trial, changes });
    }
}

/// Next hops in all of its rounds.
fn hops(course: &MigrationPlan) -> usize {
    let rounds = course.legs().filter_map(|(_, leg)| match leg {
        MigrationStep::Round(round) => Some(round),
        MigrationStep::Switch(_) => None,
    });
    let tables = rounds.flat_map(BTreeMap::values);
    let towards = tables.flat_map(|table| table.towards.values());
    towards.map(Vec::len).sum()
}

impl Trial {
    fn is_of(&self, plan: &Plan, basis: &Basis) -> bool {
        self.plan.parent == plan.parent
            && self.plan.tables == plan.tables
            && self.plan.circuits == plan.circuits
            && self.plan.pins == plan.pins
            && self.basis == *basis
    }

    fn check_next(&mut self, fabric: &Fabric, policy: &Policy) {
        let network = self.basis.network(fabric, policy);
        let wanted = (&self.wanted.0, &self.wanted.1);
        self.verdict = self.check.check_next(&network, &self.course, wanted);
    }
}

impl Basis {
    fn of(turn: &DecisionContext<'_>, plan: &Plan) -> Self {
        let (known, in_force) = (turn.known, turn.state.in_force());
        let world = turn.world();
        let around = EffectiveState::new(turn.state, known.fabric, plan.generation);
        let flows = in_force.pins.iter().chain(&plan.pins).map(|pin| pin.flow);
        let ends = flows.flat_map(|flow| [*flow.source.ip(), *flow.destination.ip()]);
        let ends: BTreeSet<_> = ends.collect();
        let mut addresses = [known.ingest.owners().clone(), world.wiring.addresses()];
        for owners in &mut addresses {
            owners.retain(|address, _| ends.contains(address));
        }
        Self {
            generations: [in_force.generation, turn.state.base_of(plan)],
            pins: plan.kept_of(&in_force.pins),
            down: [migration::down(world, &around.circuits), world.down()],
            around,
            addresses,
        }
    }

    fn network<'a>(&'a self, fabric: &'a Fabric, policy: &Policy) -> Network<'a> {
        let [generation, _] = self.generations;
        let [down, _] = &self.down;
        let [addresses, _] = &self.addresses;
        Network {
            fabric,
            addresses,
            down,
            generation,
            pins: &self.pins,
            tables: &self.around.tables,
            unsure: &self.around.unsure,
            circuits: &self.around.circuits,
            floor: policy.capacity_floor,
            is_lossless: policy.lossless,
            ..Network::untouched(fabric)
        }
    }
}

/// The migration of a plan in the network as it is now, if the checker has found each step of it sound.
pub(super) fn laid(turn: &mut DecisionContext<'_>, plan: &Plan) -> Result<Arc<Trial>, Hindrance> {
    let trial = trial(turn, plan)?;
    turn.judge.handle_asked(&trial);
    match trial.verdict.clone() {
        None => Err(Hindrance::Unjudged),
        Some(Ok(())) => Ok(trial),
        // What others do just now passes.
        Some(Err(unsound)) => Err(match turn.state.beside(plan.generation).next() {
            Some(_) => Hindrance::Unready(migration::reasons(unsound)),
            None => Hindrance::Wrong(migration::reasons(unsound)),
        }),
    }
}

/// What is known of its migration, or the migration laid, and judged if that is done at once.
pub(super) fn trial(turn: &DecisionContext<'_>, plan: &Plan) -> Result<Arc<Trial>, Hindrance> {
    let basis = Basis::of(turn, plan);
    let case = turn.judge.cases.get(&plan.generation);
    if let Some(known) = case.filter(|it| it.trial.is_of(plan, &basis)) {
        return Ok(Arc::clone(&known.trial));
    }
    let mut trial = begun(turn, plan, basis)?;
    let is_at_once = turn.judge.is_at_once(&trial.course);
    if is_at_once || case.is_some_and(|it| it.changes >= MAX_CHANGES) {
        while trial.verdict.is_none() {
            trial.check_next(turn.known.fabric, turn.known.policy);
        }
    }
    Ok(Arc::new(trial))
}

/// With no step judged.
fn begun(turn: &DecisionContext<'_>, plan: &Plan, basis: Basis) -> Result<Trial, Hindrance> {
    let objections = plan_check::objections(turn.world(), turn.state, plan);
    if !objections.is_empty() {
        return Err(Hindrance::Wrong(objections));
    }
    let claims = turn.claims(plan);
    let [down, _] = &basis.down;
    let wanted = migration::wanted(&basis.around, &claims, &plan.tables, &plan.circuits);
    let from = migration::start(turn, &basis.around, down, &claims);
    let course = course(from, &wanted.0, &wanted.1)
        .map_err(|NoSafeOrder| Hindrance::Wrong(vec![Reason::NoCourse]))?;
    let pinned = lifted_and_set(&turn.state.in_force().pins, &plan.pins);
    let course = between_pins(course, pinned, [&basis.around.tables, &wanted.0]);
    if let Some(node) = migration::beyond(&course, &claims) {
        return Err(Hindrance::Wrong(vec![Reason::Beyond { node }]));
    }
    let network = basis.network(turn.known.fabric, turn.known.policy);
    let check = CourseCheck::new(&network);
    Ok(Trial {
        plan: plan.clone(),
        course,
        wanted,
        check,
        verdict: None,
        basis,
    })
}
