//! Findings and their repairs: calls the planner, and removes pins that no longer serve.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::cause::{Cause, Class};
use reweave_common::fabric::Fabric;
use reweave_common::finding::{Collision, Finding, Useless, UselessPin};
use reweave_common::ids::LinkId;
use reweave_common::operator::Explanation;
use reweave_common::plan::{Pin, Plan, Report};
use reweave_common::snapshot::FlowState;
use reweave_common::units::Rate;
use reweave_repair::causes::{EvidenceError, Exchange, Sifted, explain_exchange, subject_of};
use reweave_repair::paths::drained;

use crate::ingest::admission::Admissions;
use crate::log::state::{InForce, State};
use crate::model::circuit_drift::{self, CircuitDrift};
use crate::model::evidence::{evidence, lossy};
use crate::model::jobs;
use crate::model::world::World;
use crate::plan::drain_routes::renewed;
use crate::plan::{dark_routes, stale_pins};

/// More doubts are counted but not listed.
const MAX_DOUBTS: usize = 16;

/// All findings in one list.
pub(crate) struct Diagnosis {
    /// Pins that lead nowhere come first, since their flows have no path; then collisions, then other causes.
    pub(crate) findings: Vec<Finding>,
    /// Measurements that were left out, and why.
    pub(crate) doubts: Vec<String>,
}

pub(crate) fn diagnose(world: &World<'_>, state: &State, arrivals: &Admissions) -> Diagnosis {
    let in_force = state.in_force();
    let dead = stale_pins::dead(world, in_force).into_iter();
    let dead = dead.map(Finding::UselessPin);
    let drifts = circuit_drift::drifts(world.fabric(), state);
    let drifts = drifts.iter().flat_map(CircuitDrift::causes);
    let collisions = collisions(world, in_force);
    let (evidence, mut doubts) = evidence(world, arrivals).sifted(world.fabric());
    let (causes, unfit) = causes_by(&evidence, world);
    doubts.extend(unfit);
    let known = world.known;
    doubts.extend(known.ways.doubts(known.fabric, known.ingest));
    doubts.extend(evidence.doubts(world.fabric()));
    doubts.extend(world.pinning_doubts());
    let causes = drifts.chain(causes).map(Finding::Cause);
    Diagnosis {
        findings: dead.chain(collisions).chain(causes).collect(),
        doubts: doubt_list(doubts),
    }
}

fn doubt_list(mut doubts: Vec<String>) -> Vec<String> {
    let more = doubts.len().saturating_sub(MAX_DOUBTS);
    doubts.truncate(MAX_DOUBTS);
    doubts.extend((more > 0).then(|| format!("{more} more left out")));
    doubts
}

/// All other causes of slow jobs, by the evidence that fits the fabric.
pub(crate) fn causes(world: &World<'_>, arrivals: &Admissions) -> Vec<Cause> {
    let (evidence, _) = evidence(world, arrivals).sifted(world.fabric());
    causes_by(&evidence, world).0
}

/// Collisions are left out: the gain of a plan distinguishes real ones.
fn causes_by(evidence: &Sifted, world: &World<'_>) -> (Vec<Cause>, Option<String>) {
    match evidence.diagnose(world.fabric()) {
        Ok(mut causes) => {
            causes.retain(|cause| cause.class != Class::EcmpCollision);
            (causes, None)
        }
        Err(error) => (vec![], Some(format!("only collisions considered: {error}"))),
    }
}

/// Explains why a job is slow. None if its hosts exchange nothing.
pub(crate) fn explain(
    world: &World<'_>,
    state: &State,
    arrivals: &Admissions,
    exchange: &Exchange,
) -> Result<Option<Explanation>, EvidenceError> {
    let fabric = world.fabric();
    let findings = diagnose(world, state, arrivals).findings.into_iter();
    let mut found: Vec<_> = findings.filter_map(|it| as_cause(fabric, it)).collect();
    // Of causes equally near to the path, the first is reported: collisions come last.
    found.sort_by_key(|cause| cause.class == Class::EcmpCollision);
    explain_exchange(exchange, fabric, &found)
}

fn as_cause(fabric: &Fabric, finding: Finding) -> Option<Cause> {
    match finding {
        Finding::Cause(cause) => Some(cause),
        Finding::EcmpCollision(collision) => Some(collided(fabric, &collision)),
        Finding::UselessPin(_) => None,
    }
}

/// A collision as a cause.
fn collided(fabric: &Fabric, collision: &Collision) -> Cause {
    let (hop, flows) = (collision.hop, collision.losers.len());
    let percent = 100.0 * collision.utilization;
    let said = format!(
        "{flows} large flows share it at {percent:.0} % while equivalent links have free \
                 capacity"
    );
    Class::EcmpCollision.cause(subject_of(fabric, hop), 0.9, said)
}

fn collisions(world: &World<'_>, in_force: &InForce) -> Vec<Finding> {
    let policy = &world.known.policy.planner;
    let mut snapshot = jobs::snapshot(world, in_force);
    let repair = reweave_repair::repair(&snapshot, policy);
    let lossy = lossy_for(world, repair.findings());
    if lossy.is_empty() {
        return repair.into_findings();
    }
    drop(repair);
    snapshot.lossy = lossy;
    reweave_repair::repair(&snapshot, policy).into_findings()
}

/// Link loss, which reduces a link's value so that no flow is moved there in vain. It is computed only when flows are
/// to be moved.
fn lossy_for(world: &World<'_>, findings: &[Finding]) -> BTreeMap<LinkId, f64> {
    if findings.is_empty() {
        BTreeMap::new()
    } else {
        lossy(world)
    }
}

/// A plan that repairs the findings. It gets an unused generation, so that an operator approves exactly what was
/// shown, and agents accept it as new. Pins and routes that lead nowhere are removed before anything else.
pub(crate) fn plan(world: &World<'_>, state: &State) -> Option<Plan> {
    urgent(world, state).or_else(|| not_urgent(world, state))
}

/// The same when nothing is urgent. Pins of ended flows are removed when nothing else is to be done.
pub(crate) fn not_urgent(world: &World<'_>, state: &State) -> Option<Plan> {
    mend(world, state).or_else(|| {
        let left_over = stale_pins::left_over(world.known, &state.in_force().pins);
        lift(state, left_over)
    })
}

/// The urgent part: pins and routes of ours that lead nowhere.
pub(crate) fn urgent(world: &World<'_>, state: &State) -> Option<Plan> {
    let lifted = lift(state, stale_pins::dead(world, state.in_force()));
    let lifted = lifted.or_else(|| renewed(world, state));
    lifted.or_else(|| dark_routes::plan(world, state))
}

/// A plan without pins over drained links.
pub(crate) fn off_drained(world: &World<'_>, state: &State) -> Option<Plan> {
    let drained = drained(world.fabric(), &state.in_force().tables);
    let mut over = stale_pins::dead(world, state.in_force());
    over.retain(|pin| match &pin.because {
        Useless::WayDown { links } => links.iter().all(|link| drained.contains(link)),
        Useless::FlowEnded => false,
    });
    lift(state, over)
}

/// A plan without those of these pins whose flows have ended.
pub(crate) fn without_left_over(world: &World<'_>, state: &State, pins: &[Pin]) -> Option<Plan> {
    lift(state, stale_pins::left_over(world.known, pins))
}

/// Leaves out flows that a running plan changes, whatever their findings.
fn mend(world: &World<'_>, state: &State) -> Option<Plan> {
    let policy = &world.known.policy.planner;
    let in_hand = state.under_way().flat_map(|it| &it.claims.flows);
    let in_hand: BTreeSet<_> = in_hand.copied().collect();
    let is_in_hand = |it: &FlowState| in_hand.contains(&it.flow);
    let mut snapshot = jobs::snapshot(world, state.in_force());
    let repair = reweave_repair::repair(&snapshot, policy);
    let lossy = lossy_for(world, repair.findings());
    // A repair balances all flows, so it is not repeated while nothing has changed.
    let plan = if lossy.is_empty() && !snapshot.flows.iter().any(is_in_hand) {
        repair.into_plan()
    } else {
        drop(repair);
        snapshot.lossy = lossy;
        snapshot.flows.retain(|it| !is_in_hand(it));
        reweave_repair::repair(&snapshot, policy).into_plan()
    };
    Some(Plan {
        generation: state.next_generation(),
        ..plan?
    })
}

/// Removes all pins of these flows, which belong together. The plan predicts nothing.
fn lift(state: &State, useless: Vec<UselessPin>) -> Option<Plan> {
    let in_force = state.in_force();
    let flows: BTreeSet<_> = useless.iter().map(|pin| pin.flow).collect();
    let kept = |pin: &&Pin| !flows.contains(&pin.flow);
    let nothing = Rate::from_bits_per_s(0);
    (!flows.is_empty()).then(|| Plan {
        generation: state.next_generation(),
        parent: in_force.generation,
        takes_back: None,
        pins: in_force.pins.iter().filter(kept).copied().collect(),
        tables: in_force.tables.clone(),
        circuits: in_force.circuits.clone(),
        orders: Vec::new(),
        moves: Vec::new(),
        predictions: Vec::new(),
        iterations: Vec::new(),
        report: Report {
            findings: useless.into_iter().map(Finding::UselessPin).collect(),
            slowest_before: nothing,
            slowest_after: nothing,
            alternatives: Vec::new(),
        },
    })
}

/// Whether both plans lead from the same state to the same state, whatever they predict.
pub(crate) fn do_the_same(one: &Plan, other: &Plan) -> bool {
    let what = |plan: &Plan| (plan.parent, plan.pins.clone(), plan.moves.clone());
    let orders = |plan: &Plan| -> Vec<_> {
        let orders = plan.orders.iter();
        orders
            .map(|it| (it.job.clone(), it.after.clone()))
            .collect()
    };
    what(one) == what(other)
        && orders(one) == orders(other)
        && (&one.tables, &one.circuits) == (&other.tables, &other.circuits)
}
