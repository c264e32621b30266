//! The jobs that a plan affects, and the number of their flows: flows that change their path, and flows that may
//! become slower. The prediction decides about the latter; without one, new flows on their links do.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use reweave_check::{Sent, Touch, Touches};
use reweave_common::operator::{Refused, TouchedJob};
use reweave_common::plan::Plan;
use reweave_common::resource_set::ResourceSet;
use reweave_common::snapshot::FlowState;

use crate::log::rate_summary::scaled;
use crate::log::state::State;
use crate::model::world::World;
use crate::plan::plan_check::with_network;

/// The affected jobs, the most affected first.
pub(crate) fn touched(
    world: &World<'_>,
    state: &State,
    plan: &Plan,
    claims: &ResourceSet,
) -> Vec<TouchedJob> {
    let mut jobs = by_job(world, state, plan, claims);
    let is_touched = |(touch, _): &&Touched| touch.is_some();
    let count = |flows: &[Touched]| flows.iter().filter(is_touched).count();
    jobs.retain(|(_, flows)| count(flows) > 0);
    jobs.sort_by_key(|(_, flows)| Reverse(count(flows)));
    jobs.into_iter()
        .map(|(job, flows)| touched_job(job, &flows))
        .collect()
}

fn touched_job(job: String, flows: &[Touched]) -> TouchedJob {
    let is_moved = |(touch, _): &&Touched| *touch == Some(Touch::Moved);
    TouchedJob {
        job,
        flows: flows.len(),
        moved: flows.iter().filter(is_moved).count(),
        slowed: flows.iter().filter(|(_, may_slow)| *may_slow).count(),
    }
}

/// Returns the reason why the plan can only be approved with force.
pub(crate) fn too_wide(
    world: &World<'_>,
    state: &State,
    plan: &Plan,
    claims: &ResourceSet,
) -> Option<Refused> {
    let most = world.known.policy.most_touched;
    if most >= 1.0 {
        return None;
    }
    let touches = by_job(world, state, plan, claims);
    let all: Vec<_> = touches.into_iter().flat_map(|(_, flows)| flows).collect();
    let touched = all.iter().filter(|(touch, _)| touch.is_some()).count();
    let share = touched as f64 / all.len().max(1) as f64;
    (share > most).then(|| Refused::TooWide {
        touched_percent: percent(share),
        most_percent: percent(most),
    })
}

fn percent(share: f64) -> u64 {
    (100.0 * share).round() as u64
}

/// Effect on a flow, and whether it may become slower.
type Touched = (Option<Touch>, bool);

fn by_job(
    world: &World<'_>,
    state: &State,
    plan: &Plan,
    claims: &ResourceSet,
) -> Vec<(String, Vec<Touched>)> {
    let tolerance = world.known.policy.tolerance;
    let predicted = plan.predictions.iter();
    let predicted: BTreeMap<_, _> = predicted
        .map(|it| (it.flow, it.low < scaled(it.before, 1.0 - tolerance)))
        .collect();
    with_network(world, state, plan, |network| {
        let touches = Touches::of(network, plan, claims);
        let one = |flow: &FlowState| {
            let touch = touches.touch(&sent(flow));
            let may_slow = predicted.get(&flow.flow).copied();
            (touch, may_slow.unwrap_or(touch == Some(Touch::Slowed)))
        };
        let jobs = world.known.resting.all_jobs(world).into_iter();
        let jobs = jobs.map(|job| {
            let flows = job.flows.iter().map(one).collect();
            (job.name(world.known), flows)
        });
        jobs.collect()
    })
}

fn sent(flow: &FlowState) -> Sent {
    let path = flow.path.as_ref();
    Sent {
        flow: flow.flow,
        from: flow.from,
        to: flow.to,
        path: path.map(|path| path.iter().map(|hop| hop.link).collect::<BTreeSet<_>>()),
    }
}
