//! The rates that a verdict compares: just before the first instruction, and after the last acknowledgement.

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

/// A larger period is not taken for one iteration.
const MAX_ITERATION_SHARE: f64 = 100.0;
/// A changed iteration period is reported within this time.
const BEAT_SETTLE_TIMEOUT: Duration = Duration::from_secs(8);

/// The rates of all elephants and of every flow that the plan concerns; without one of them the plan could not be
/// judged.
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

/// The rates of the flows measured before, and of new elephants.
pub(super) fn after(
    world: &World<'_>,
    rollout: &Rollout,
    from: Moment,
) -> BTreeMap<FlowKey, RateSummary> {
    let known = world.known;
    let old: BTreeSet<_> = rollout.before.iter().map(|before| before.flow).collect();
    let matters =
        |flow: &FlowKey, spread: &RateSummary| old.contains(flow) || known.is_elephant(spread.mean);
    let flows = known
        .ingest
        .observations()
        .nodes()
        .flat_map(|(_, observed)| &observed.flows)
        .filter(|(flow, _)| world.is_of_training(flow));
    let measured =
        flows.filter_map(|(&flow, recent)| Some((flow, known.spread_since(recent, from)?)));
    measured
        .filter(|(flow, spread)| matters(flow, spread))
        .collect()
}

/// The iteration times since then, in the order of the predictions.
pub(super) fn periods(
    known: Measurements<'_>,
    plan: &Plan,
    since: Moment,
) -> Vec<Option<TimeSpan>> {
    let promised = plan.iterations.iter();
    promised.map(|it| period(known, it, since)).collect()
}

/// The most certain iteration period reported since then.
fn period(known: Measurements<'_>, promised: &Iteration, since: Moment) -> Option<TimeSpan> {
    let hosts = promised.exchanged.iter();
    let heard = hosts.filter_map(|(&host, work)| Some((beat(known, host)?, *work)));
    let timed = heard.filter_map(|(heard, work)| {
        let period = time_for(work, heard.value)?;
        let is_new = heard.at.since(since) >= learned_for(heard.value);
        let is_same = is_same_period(period, promised.before);
        let is_settled = is_new || is_same && heard.at.since(since) >= BEAT_SETTLE_TIMEOUT;
        is_settled.then_some((heard.value.confidence_percent, period))
    });
    let surest = timed.max_by_key(|(confidence, _)| *confidence);
    surest.map(|(_, period)| period)
}

/// Two similar iterations may be detected as one or as two, so the time is scaled to the same work.
fn time_for(work: Bytes, beat: IterationPeriod) -> Option<TimeSpan> {
    let share = work.count() as f64 / beat.exchanged() as f64;
    let is_sane = share.is_finite() && share < MAX_ITERATION_SHARE;
    is_sane.then(|| beat.period.scaled(share))
}

/// How much of the period's evidence is from before the instruction.
fn learned_for(beat: IterationPeriod) -> Duration {
    beat.period.saturating_mul(beat.iterations)
}

/// Flows whose rates other running plans are to change.
pub(super) fn of_others(state: &State, rollout: &Rollout) -> BTreeSet<FlowKey> {
    let others = state.beside(rollout.plan.generation);
    others
        .flat_map(|it| it.claims.flows.iter().copied())
        .collect()
}
