//! What is wrong, and what would mend it: asks the planner, and sees to pins that serve no more.

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

use crate::arrivals::Arrivals;
use crate::carrying::renewed;
use crate::evidence::{evidence, lossy};
use crate::jobs;
use crate::model::Picture;
use crate::pins;
use crate::state::{InForce, State};

/// More doubts are counted, and not told.
const MAX_DOUBTS: usize = 16;

/// Pins that lead nowhere come first: their flows have nothing at all. Beside them what was left out of
/// what is measured, and why.
pub(crate) fn findings(
    picture: &Picture<'_>,
    in_force: &InForce,
    arrivals: &Arrivals,
) -> (Vec<Finding>, Vec<String>) {
    let dead = pins::dead(picture, in_force).into_iter();
    let dead = dead.map(Finding::UselessPin);
    let collisions = collisions(picture, in_force);
    let (evidence, mut doubts) = evidence(picture, arrivals).sifted(picture.fabric());
    let (causes, unfit) = causes_by(&evidence, picture);
    doubts.extend(unfit);
    doubts.extend(picture.known.ways.doubts(picture.known));
    doubts.extend(evidence.doubts(picture.fabric()));
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
pub(crate) fn causes(picture: &Picture<'_>, arrivals: &Arrivals) -> Vec<Cause> {
    let (evidence, _) = evidence(picture, arrivals).sifted(picture.fabric());
    causes_by(&evidence, picture).0
}

/// Collisions are told apart from what only looks like one by what a plan would bring, so they are not
/// asked for here.
fn causes_by(evidence: &Sifted, picture: &Picture<'_>) -> (Vec<Cause>, Option<String>) {
    match evidence.diagnose(picture.fabric()) {
        Ok(mut causes) => {
            causes.retain(|cause| cause.class != Class::EcmpCollision);
            (causes, None)
        }
        Err(error) => (
            vec![],
            Some(format!("all but collisions left out: {error}")),
        ),
    }
}

/// Why a job is slow, by all that is found to be wrong. Nothing when its hosts exchange nothing.
pub(crate) fn explain(
    picture: &Picture<'_>,
    in_force: &InForce,
    arrivals: &Arrivals,
    exchange: &Exchange,
) -> Result<Option<Explanation>, EvidenceError> {
    let mut found = causes(picture, arrivals);
    let collisions = collisions(picture, in_force);
    let fabric = picture.fabric();
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
    let said =
        format!("{flows} large flows share it at {percent:.0} % while equal links have room");
    Some(Class::EcmpCollision.cause(subject_of(fabric, hop), 0.9, said))
}

fn collisions(picture: &Picture<'_>, in_force: &InForce) -> Vec<Finding> {
    looked_at(picture, in_force).1
}

/// The collisions, and the picture by which they are some: a link that loses packets is worth less than
/// its rate, so that nobody is sent there for whom it brings nothing. That is looked for only where
/// something is to be moved.
fn looked_at(picture: &Picture<'_>, in_force: &InForce) -> (Snapshot, Vec<Finding>) {
    let policy = &picture.known.policy.planner;
    let snapshot = jobs::snapshot(picture, in_force);
    let found = reweave_planner::diagnose(&snapshot, policy);
    let lossy = match found.is_empty() {
        true => BTreeMap::new(),
        false => lossy(picture),
    };
    if lossy.is_empty() {
        return (snapshot, found);
    }
    let snapshot = Snapshot { lossy, ..snapshot };
    let found = reweave_planner::diagnose(&snapshot, policy);
    (snapshot, found)
}

/// What would mend what is wrong. Its number is one that no plan had before, so that an operator
/// who approves a number approves what was shown, and no agent takes it for something old.
///
/// What leads nowhere is taken away before anything else, and what is left of flows that have ended when
/// there is nothing else to do.
pub(crate) fn plan(picture: &Picture<'_>, state: &State) -> Option<Plan> {
    let left_over = || pins::left_over(picture.known, &state.in_force().pins);
    urgent(picture, state)
        .or_else(|| mend(picture, state))
        .or_else(|| lift(state, left_over()))
}

/// What cannot wait: pins and routes of ours that lead nowhere.
pub(crate) fn urgent(picture: &Picture<'_>, state: &State) -> Option<Plan> {
    lift(state, pins::dead(picture, state.in_force())).or_else(|| renewed(picture, state))
}

/// Without pins that lead over what shall carry nothing.
pub(crate) fn off_drained(picture: &Picture<'_>, state: &State) -> Option<Plan> {
    let drained = drained(picture.fabric(), &state.in_force().tables);
    let mut over = pins::dead(picture, state.in_force());
    over.retain(|pin| match &pin.because {
        Useless::WayDown { links } => links.iter().all(|link| drained.contains(link)),
        Useless::FlowEnded => false,
    });
    lift(state, over)
}

/// Without those of these pins whose flows have ended.
pub(crate) fn without_left_over(
    picture: &Picture<'_>,
    state: &State,
    pins: &[Pin],
) -> Option<Plan> {
    lift(state, pins::left_over(picture.known, pins))
}

/// Flows that a plan on its way has in hand are let be, whatever they suffer now.
fn mend(picture: &Picture<'_>, state: &State) -> Option<Plan> {
    let in_force = state.in_force();
    let policy = &picture.known.policy.planner;
    let (mut snapshot, mut findings) = looked_at(picture, in_force);
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
