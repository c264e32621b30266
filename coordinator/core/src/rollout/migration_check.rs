//! Checks migrations. With thousands of nodes, the checker takes part of a second for each step. So a large migration
//! is checked one step at a time, with urgent work in between. No plan starts before its last step was found sound.
//!
//! All steps are checked against the same state of the network, and the verdict holds for that state only. If
//! something has changed by the time that the verdict is used, such as a failed link or another running plan, the
//! migration is planned and checked again.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use reweave_check::{MigrationCheck, Network, Unsound};
use reweave_common::fabric::{Circuits, Fabric};
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::migration_plan::{MigrationPlan, MigrationStep, Tables};
use reweave_common::plan::{Generation, Pin, Plan};

use super::effective_state::EffectiveState;
use super::forwarding_rules::lifted_and_set;
use super::rounds::between_pins;
use super::start::Hindrance;
use super::{DecisionContext, migration};
use crate::log::reason::Reason;
use crate::log::state::{Phase, State};
use crate::plan::migration::{NoSafeOrder, plan_migration};
use crate::plan::plan_check;

/// Migrations with at most this many next hops are checked at once: a quarter of those that one step of the largest
/// plan may have.
const MAX_HOPS_PER_TRIAL: usize = 1 << 16;
/// After this many changes of the network, all steps are checked at once: otherwise flapping links could delay a plan
/// forever.
const MAX_CHANGES: u32 = 3;

/// The migrations of plans that have not started.
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

/// A migration and the progress of its check.
#[derive(Debug, Clone)]
pub(super) struct Trial {
    plan: Plan,
    pub(super) basis: Basis,
    pub(super) migration_plan: MigrationPlan,
    /// The tables and circuits at the end of the migration.
    wanted: (Tables, Circuits),
    check: MigrationCheck,
    /// None while steps are left.
    pub(super) verdict: Option<Result<(), Vec<Unsound>>>,
}

/// Everything that the checker depends on besides the plan and the fabric.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Basis {
    /// The generation in force, and the one that the plan must name as its parent.
    generations: [Generation; 2],
    /// The pins in force that stay. Others are removed before the first step, and new ones are set after the last.
    pins: Vec<Pin>,
    pub(super) around: EffectiveState,
    /// Links that are down, including those over circuits, and without them.
    down: [BTreeSet<LinkId>; 2],
    /// The nodes of the pinned flows' addresses: when they were instructed, and by present reports.
    addresses: [BTreeMap<Ipv4Addr, NodeId>; 2],
    /// The links of the NICs with the pinned flows' addresses.
    nics: BTreeMap<Ipv4Addr, LinkId>,
    /// The policy's capacity floor, and whether it calls the fabric lossless.
    floor: f64,
    is_lossless: bool,
}

impl Default for Judge {
    fn default() -> Self {
        Self::at_once(MAX_HOPS_PER_TRIAL)
    }
}

impl Judge {
    /// Migrations with more next hops are checked step by step.
    pub(crate) fn at_once(max_hops_at_once: usize) -> Self {
        let cases = BTreeMap::new();
        Self {
            cases,
            max_hops_at_once,
        }
    }

    /// Whether a step waits to be checked.
    pub(crate) fn is_under_way(&self) -> bool {
        self.cases.values().any(|it| it.trial.verdict.is_none())
    }

    /// Checks one step. Returns whether that completed a verdict.
    pub(crate) fn check_next(&mut self, fabric: &Fabric) -> bool {
        let mut cases = self.cases.values_mut();
        let Some(case) = cases.find(|it| it.trial.verdict.is_none()) else {
            return false;
        };
        let trial = Arc::make_mut(&mut case.trial);
        trial.check_next(fabric);
        trial.verdict.is_some()
    }

    /// Keeps the migrations of plans that may still start.
    pub(crate) fn forget_ended(&mut self, state: &State) {
        let next = state.next_generation();
        let may_begin = |generation: Generation| {
            let rollout = state.rollout(generation);
            let waits = |phase: &Phase| matches!(phase, Phase::Proposed | Phase::Approved);
            rollout.map_or(generation == next, |it| waits(&it.phase))
        };
        self.cases.retain(|&generation, _| may_begin(generation));
    }

    fn is_at_once(&self, migration_plan: &MigrationPlan) -> bool {
        migration_plan.steps().nth(1).is_none() || hops(migration_plan) <= self.max_hops_at_once
    }

    /// A request needs this verdict, or waits for it.
    fn handle_asked(&mut self, trial: &Arc<Trial>) {
        let generation = trial.plan.generation;
        if self.is_at_once(&trial.migration_plan) {
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

/// The number of next hops in all rounds.
fn hops(migration_plan: &MigrationPlan) -> usize {
    let rounds = migration_plan.steps().filter_map(|(_, step)| match step {
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

    fn check_next(&mut self, fabric: &Fabric) {
        let network = self.basis.network(fabric);
        let (tables, circuits) = &self.wanted;
        let migration_plan = &self.migration_plan;
        self.verdict = self
            .check
            .check_next(&network, migration_plan, tables, circuits);
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
        let mut nics = world.wiring.nics().clone();
        nics.retain(|address, _| ends.contains(address));
        Self {
            generations: [in_force.generation, turn.state.base_of(plan)],
            pins: plan.kept_of(&in_force.pins),
            down: [migration::down(world, &around.circuits), world.down()],
            around,
            addresses,
            nics,
            floor: known.policy.capacity_floor,
            is_lossless: known.policy.lossless,
        }
    }

    fn network<'a>(&'a self, fabric: &'a Fabric) -> Network<'a> {
        let [generation, _] = self.generations;
        let [down, _] = &self.down;
        let [addresses, _] = &self.addresses;
        Network {
            fabric,
            addresses,
            nics: &self.nics,
            down,
            generation,
            pins: &self.pins,
            tables: &self.around.tables,
            unsure: &self.around.unsure,
            circuits: &self.around.circuits,
            floor: self.floor,
            is_lossless: self.is_lossless,
            ..Network::untouched(fabric)
        }
    }
}

/// The migration of a plan in the present network, if the checker found each step sound.
pub(super) fn laid(turn: &mut DecisionContext<'_>, plan: &Plan) -> Result<Arc<Trial>, Hindrance> {
    let trial = trial(turn, plan)?;
    turn.judge.handle_asked(&trial);
    match trial.verdict.clone() {
        None => Err(Hindrance::Unjudged),
        Some(Ok(())) => Ok(trial),
        // An objection that a concurrent plan causes is temporary.
        Some(Err(unsound)) => Err(match turn.state.beside(plan.generation).next() {
            Some(_) => Hindrance::Unready(migration::reasons(unsound)),
            None => Hindrance::Wrong(migration::reasons(unsound)),
        }),
    }
}

/// The known check of the plan's migration, or a new one, completed if it is small.
pub(super) fn trial(turn: &DecisionContext<'_>, plan: &Plan) -> Result<Arc<Trial>, Hindrance> {
    let basis = Basis::of(turn, plan);
    let case = turn.judge.cases.get(&plan.generation);
    if let Some(known) = case.filter(|it| it.trial.is_of(plan, &basis)) {
        return Ok(Arc::clone(&known.trial));
    }
    let mut trial = begun(turn, plan, basis)?;
    let is_at_once = turn.judge.is_at_once(&trial.migration_plan);
    if is_at_once || case.is_some_and(|it| it.changes >= MAX_CHANGES) {
        while trial.verdict.is_none() {
            trial.check_next(turn.known.fabric);
        }
    }
    Ok(Arc::new(trial))
}

/// Plans the migration, without checking a step.
fn begun(turn: &DecisionContext<'_>, plan: &Plan, basis: Basis) -> Result<Trial, Hindrance> {
    let objections = plan_check::objections(turn.world(), turn.state, plan);
    if !objections.is_empty() {
        return Err(Hindrance::Wrong(objections));
    }
    let claims = turn.claims(plan);
    let [down, _] = &basis.down;
    let wanted = migration::wanted(&basis.around, &claims, &plan.tables, &plan.circuits);
    let from = migration::start(turn, &basis.around, down, &claims);
    let migration_plan = plan_migration(from, &wanted.0, &wanted.1)
        .map_err(|NoSafeOrder| Hindrance::Wrong(vec![Reason::NoSafeOrder]))?;
    let pinned = lifted_and_set(&turn.state.in_force().pins, &plan.pins);
    let migration_plan = between_pins(migration_plan, pinned, [&basis.around.tables, &wanted.0]);
    if let Some(node) = migration::beyond(&migration_plan, &claims) {
        return Err(Hindrance::Wrong(vec![Reason::Beyond { node }]));
    }
    let network = basis.network(turn.known.fabric);
    let check = MigrationCheck::new(&network);
    Ok(Trial {
        plan: plan.clone(),
        migration_plan,
        wanted,
        check,
        verdict: None,
        basis,
    })
}
