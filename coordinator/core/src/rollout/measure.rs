//! The rates that a verdict compares: just before the first instruction, and after the last answer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use reweave_common::flow::FlowKey;
use reweave_common::moment::Moment;
use reweave_common::periodicity::{IterationPeriod, is_same_period};
use reweave_common::plan::{Iteration, Plan};
use reweave_common::snapshot::FlowState;
use reweave_common::time_span::TimeSpan;
use reweave_common::units::Bytes;

use crate::log::command::Before;
use crate::log::rate_summary::RateSummary;
use crate::log::reason::Reason;
use crate::log::state::{Rollout, State};
use crate::model::jobs::beat;
use crate::model::world::{Measurements, World};
use crate::rollout::verify::concerned;

/// More iterations are not taken for one.
const MAX_ITERATION_SHARE: f64 = 100.0;
/// An iteration period that has changed is reported by then.
const BEAT_SETTLE_TIMEOUT: Duration = Duration::from_secs(8);

/// Of all elephants, and of every flow that the plan concerns, or it cannot be judged.
pub(super) fn before(world: &World<'_>, plan: &Plan) -> Result<Vec<Before>, Vec<Reason>> {
    let known = world.known;
    let concerned = concerned(plan);
    let matters =
        |state: &FlowState| concerned.contains(&state.flow) || known.is_elephant(state.rate);
    let flows = world.flows().into_iter().filter(matters);
    let before: Vec<_> = flows
        .map(|state| Before {
            flow: state.flow,
            spread: spread(&state),
        })
        .collect();
    let measured: BTreeSet<_> = before.iter().map(|before| before.flow).collect();
    let missing = concerned.difference(&measured);
    let missing: Vec<_> = missing.map(|&flow| Reason::NotMeasured { flow }).collect();
    if missing.is_empty() {
        Ok(before)
    } else {
        Err(missing)
    }
}

fn spread(state: &FlowState) -> RateSummary {
    let [least, most] = state.rate_range;
    RateSummary {
        mean: state.rate,
        least,
        most,
    }
}

/// Of the flows that were there before, and of elephants that have come since.
pub(super) fn after(
    known: Measurements<'_>,
    rollout: &Rollout,
    from: Moment,
) -> BTreeMap<FlowKey, RateSummary> {
    let old: BTreeSet<_> = rollout.before.iter().map(|before| before.flow).collect();
    let matters =
        |flow: &FlowKey, spread: &RateSummary| old.contains(flow) || known.is_elephant(spread.mean);
    let flows = known
        .ingest
        .observations()
        .nodes()
        .flat_map(|(_, observed)| &observed.flows);
    let measured =
        flows.filter_map(|(&flow, recent)| Some((flow, known.spread_since(recent, from)?)));
    measured
        .filter(|(flow, spread)| matters(flow, spread))
        .collect()
}

/// How long iterations take since then, in the order of what is promised of them.
pub(super) fn periods(
    known: Measurements<'_>,
    plan: &Plan,
    since: Moment,
) -> Vec<Option<TimeSpan>> {
    let promised = plan.iterations.iter();
    promised.map(|it| period(known, it, since)).collect()
}

/// By the most certain iteration period reported since.
fn period(known: Measurements<'_>, promised: &Iteration, since: Moment) -> Option<TimeSpan> {
    let hosts = promised.exchanged.iter();
    let heard = hosts.filter_map(|(&host, work)| Some((beat(known, host)?, *work)));
    let timed = heard.filter_map(|(heard, work)| {
        let period = time_for(work, heard.value)?;
        let is_new = heard.at.since(since) >= learned_for(heard.value);
        let is_same = is_same_period(period, promised.before);
        let is_told = is_new || is_same && heard.at.since(since) >= BEAT_SETTLE_TIMEOUT;
        is_told.then_some((heard.value.confidence_percent, period))
    });
    let surest = timed.max_by_key(|(confidence, _)| *confidence);
    surest.map(|(_, period)| period)
}

/// Two iterations that are alike are heard now as one, now as two: what counts is how long the same work takes.
fn time_for(work: Bytes, beat: IterationPeriod) -> Option<TimeSpan> {
    let share = work.count() as f64 / beat.exchanged() as f64;
    let is_sane = share.is_finite() && share < MAX_ITERATION_SHARE;
    is_sane.then(|| beat.period.scaled(share))
}

/// All of that is from before the instruction.
fn learned_for(beat: IterationPeriod) -> Duration {
    beat.period.saturating_mul(beat.iterations)
}

/// Flows whose rates other plans on their way are made to change.
pub(super) fn of_others(state: &State, rollout: &Rollout) -> BTreeSet<FlowKey> {
    let others = state.beside(rollout.plan.generation);
    others
        .flat_map(|it| it.claims.flows.iter().copied())
        .collect()
}
