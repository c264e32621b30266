//! Findings and their repairs: calls the planner, and removes pins that no longer serve.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::cause::{Cause, Class};
use reweave_common::fabric::Fabric;
use reweave_common::finding::{Finding, Useless, UselessPin};
use reweave_common::operator::Explanation;
use reweave_common::plan::{Pin, Plan, Report};
use reweave_common::snapshot::Snapshot;
use reweave_common::units::Rate;
use reweave_planner::causes::{EvidenceError, Exchange, Sifted, explain_exchange, subject_of};
use reweave_planner::paths::drained;

use crate::ingest::admission::Admissions;
use crate::log::state::{InForce, State};
use crate::model::evidence::{evidence, lossy};
use crate::model::jobs;
use crate::model::world::World;
use crate::plan::drain_routes::renewed;
use crate::plan::stale_pins;

/// More doubts are counted, and not listed.
const MAX_DOUBTS: usize = 16;

/// Pins that lead nowhere come first: their flows have nothing at all. Beside them what was left out of
/// what is measured, and why.
pub(crate) fn findings(
    world: &World<'_>,
    in_force: &InForce,
    arrivals: &Admissions,
) -> (Vec<Finding>, Vec<String>) {
    let dead = stale_pins::dead(world, in_force).into_iter();
    let dead = dead.map(Finding::UselessPin);
    let collisions = collisions(world, in_force);
    let (evidence, mut doubts) = evidence(world, arrivals).sifted(world.fabric());
    let (causes, unfit) = causes_by(&evidence, world);
    doubts.extend(unfit);
    let known = world.known;
    doubts.extend(known.ways.doubts(known.fabric, known.ingest));
    doubts.extend(evidence.doubts(world.fabric()));
    let causes = causes.into_iter().map(Finding::Cause);
    let findings = dead.chain(collisions).chain(causes).collect();
    (findings, told(doubts))
}

fn told(mut doubts: Vec<String>) -> Vec<String> {
    let more = doubts.len().saturating_sub(MAX_DOUBTS);
    doubts.truncate(MAX_DOUBTS);
    doubts.extend((more > 0).then(|| format!("{more} more left out")));
    doubts
}

/// Whatever else slows jobs, by all that fits the fabric.
pub(crate) fn causes(world: &World<'_>, arrivals: &Admissions) -> Vec<Cause> {
    let (evidence, _) = evidence(world, arrivals).sifted(world.fabric());
    causes_by(&evidence, world).0
}

/// Collisions are told apart from what only looks like one by what a plan would bring, so they are not
/// asked for here.
fn causes_by(evidence: &Sifted, world: &World<'_>) -> (Vec<Cause>, Option<String>) {
    match evidence.diagnose(world.fabric()) {
        Ok(mut causes) => {
            causes.retain(|cause| cause.class != Class::EcmpCollision);
            (causes, None)
        }
        Err(error) => (vec![], Some(format!("only collisions considered: {error}"))),
    }
}

/// Why a job is slow, by all that is found to be wrong. Nothing when its hosts exchange nothing.
pub(crate) fn explain(
    world: &World<'_>,
    in_force: &InForce,
    arrivals: &Admissions,
    exchange: &Exchange,
) -> Result<Option<Explanation>, EvidenceError> {
    let mut found = causes(world, arrivals);
    let collisions = collisions(world, in_force);
    let fabric = world.fabric();
    found.extend(collisions.iter().filter_map(|it| collided(fabric, it)));
    explain_exchange(exchange, fabric, &found)
}

/// A collision in the words of other causes.
fn collided(fabric: &Fabric, finding: &Finding) -> Option<Cause> {
    let Finding::EcmpCollision(collision) = finding else {
        return None;
    };
    let (hop, flows) = (collision.hop, collision.losers.len());
    let percent = 100.0 * collision.utilization;
    let said = format!(
        "{flows} large flows share it at {percent:.0} % while equivalent links have free \
                 capacity"
    );
    Some(Class::EcmpCollision.cause(subject_of(fabric, hop), 0.9, said))
}

fn collisions(world: &World<'_>, in_force: &InForce) -> Vec<Finding> {
    looked_at(world, in_force).1
}

/// The collisions, and the picture by which they are some: a link that loses packets is worth less than
/// its rate, so that nobody is sent there for whom it brings nothing. That is looked for only where
/// something is to be moved.
fn looked_at(world: &World<'_>, in_force: &InForce) -> (Snapshot, Vec<Finding>) {
    let policy = &world.known.policy.planner;
    let snapshot = jobs::snapshot(world, in_force);
    let found = reweave_planner::diagnose(&snapshot, policy);
    let lossy = match found.is_empty() {
        true => BTreeMap::new(),
        false => lossy(world),
    };
    if lossy.is_empty() {
        return (snapshot, found);
    }
    let snapshot = Snapshot { lossy, ..snapshot };
    let found = reweave_planner::diagnose(&snapshot, policy);
    (snapshot, found)
}

/// What would repair what is wrong. Its number is one that no plan had before, so that an operator
/// who approves a number approves what was shown, and no agent takes it for something old.
///
/// What leads nowhere is taken away before anything else, and what is left of flows that have ended when
/// there is nothing else to do.
pub(crate) fn plan(world: &World<'_>, state: &State) -> Option<Plan> {
    let left_over = || stale_pins::left_over(world.known, &state.in_force().pins);
    urgent(world, state)
        .or_else(|| mend(world, state))
        .or_else(|| lift(state, left_over()))
}

/// What cannot wait: pins and routes of ours that lead nowhere.
pub(crate) fn urgent(world: &World<'_>, state: &State) -> Option<Plan> {
    lift(state, stale_pins::dead(world, state.in_force())).or_else(|| renewed(world, state))
}

/// Without pins that lead over what should carry nothing.
pub(crate) fn off_drained(world: &World<'_>, state: &State) -> Option<Plan> {
    let drained = drained(world.fabric(), &state.in_force().tables);
    let mut over = stale_pins::dead(world, state.in_force());
    over.retain(|pin| match &pin.because {
        Useless::WayDown { links } => links.iter().all(|link| drained.contains(link)),
        Useless::FlowEnded => false,
    });
    lift(state, over)
}

/// Without those of these pins whose flows have ended.
pub(crate) fn without_left_over(world: &World<'_>, state: &State, pins: &[Pin]) -> Option<Plan> {
    lift(state, stale_pins::left_over(world.known, pins))
}

/// Flows that a plan on its way has in hand are let be, whatever they suffer now.
fn mend(world: &World<'_>, state: &State) -> Option<Plan> {
    let in_force = state.in_force();
    let policy = &world.known.policy.planner;
    let (mut snapshot, mut findings) = looked_at(world, in_force);
    if state.under_way().next().is_some() {
        let in_hand = state.under_way().flat_map(|it| &it.claims.flows);
        let in_hand: BTreeSet<_> = in_hand.copied().collect();
        snapshot.flows.retain(|flow| !in_hand.contains(&flow.flow));
        findings = reweave_planner::diagnose(&snapshot, policy);
    }
    let plan = reweave_planner::plan(&snapshot, &findings, policy)?;
    Some(Plan {
        generation: state.next_generation(),
        ..plan
    })
}

/// Without any pin of these flows: those of one flow were made for each other. It promises nothing.
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

/// Whether both lead from the same routes to the same routes, whatever they promise.
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
