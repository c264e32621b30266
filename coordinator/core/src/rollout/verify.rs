//! Whether an applied plan achieved its purpose, by readings before and after it.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::flow::FlowKey;
use reweave_common::operator::FlowChange;
use reweave_common::plan::Plan;
use reweave_common::time_span::TimeSpan;
use reweave_common::units::Rate;

use crate::log::command::Before;
use crate::log::policy::Policy;
use crate::log::rate_summary::{RateSummary, scaled};
use crate::log::reason::Reason;
use crate::log::verdict::{Decision, Judged, JudgedIteration, Verdict};

/// Measurements after a plan.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct After {
    pub(crate) rates: BTreeMap<FlowKey, RateSummary>,
    /// Iteration times, in the order of the predictions.
    pub(crate) periods: Vec<Option<TimeSpan>>,
}

/// The flows that a plan is made for: those that it moves and those that it is to speed up or slow down. A plan that
/// moves none is made for something else, whatever it predicts.
pub(crate) fn concerned(plan: &Plan) -> BTreeSet<FlowKey> {
    if plan.moves.is_empty() {
        return BTreeSet::new();
    }
    let moved = plan.moves.iter().map(|made| made.flow);
    moved
        .chain(plan.predictions.iter().map(|prediction| prediction.flow))
        .collect()
}

/// Commits a plan if the slowest of its flows gained enough, all of them still exist, and no flow and no job's
/// iteration is slower than both before and predicted.
pub(crate) fn judge(plan: &Plan, before: &[Before], after: &After, policy: &Policy) -> Verdict {
    let concerned = concerned(plan);
    let flows = judge_flows(plan, before, &after.rates, policy);
    let iterations = judge_iterations(plan, &after.periods);
    let reasons: Vec<_> = vanished(&flows, &concerned)
        .chain(too_little_gain(&flows, &concerned, policy))
        .chain(suffering(&flows, &concerned, policy))
        .chain(delayed(&iterations, policy))
        .collect();
    let decision = if reasons.is_empty() {
        Decision::Commit
    } else {
        Decision::RollBack { reasons }
    };
    Verdict {
        decision,
        flows,
        iterations,
    }
}

fn judge_iterations(plan: &Plan, periods: &[Option<TimeSpan>]) -> Vec<JudgedIteration> {
    let promised = plan.iterations.iter().zip(periods);
    let judged = promised.map(|(promised, &after)| JudgedIteration {
        job: promised.job.clone(),
        before: promised.before,
        predicted: [promised.low, promised.high],
        after,
    });
    judged.collect()
}

/// Jobs whose iterations take longer than both before and predicted.
fn delayed(iterations: &[JudgedIteration], policy: &Policy) -> impl Iterator<Item = Reason> {
    iterations.iter().filter_map(|it| {
        let after = it.after?;
        let [_, high] = it.predicted;
        let longest = it.before.max(high).scaled(1.0 + policy.tolerance);
        (after > longest).then(|| Reason::Delayed {
            job: it.job.clone(),
            before: it.before,
            after,
        })
    })
}

fn judge_flows(
    plan: &Plan,
    before: &[Before],
    after: &BTreeMap<FlowKey, RateSummary>,
    policy: &Policy,
) -> Vec<Judged> {
    let before: BTreeMap<_, _> = before
        .iter()
        .map(|before| (before.flow, before.spread))
        .collect();
    let predicted: BTreeMap<_, _> = plan
        .predictions
        .iter()
        .map(|p| (p.flow, [p.low, p.high]))
        .collect();
    let flows: BTreeSet<_> = before
        .keys()
        .chain(predicted.keys())
        .chain(after.keys())
        .copied()
        .collect();
    let judged = flows.into_iter().map(|flow| {
        let (before, after) = (before.get(&flow).copied(), after.get(&flow).copied());
        let change = change(before, after, policy);
        Judged {
            flow,
            before,
            predicted: predicted.get(&flow).copied(),
            after,
            change,
        }
    });
    judged.collect()
}

fn change(before: Option<RateSummary>, after: Option<RateSummary>, policy: &Policy) -> FlowChange {
    match (before, after) {
        (_, None) => FlowChange::Vanished,
        (None, Some(_)) => FlowChange::New,
        (Some(before), Some(after)) if is_below(after.mean, before.least, policy) => {
            FlowChange::Slower
        }
        (Some(before), Some(after)) if after.mean > scaled(before.most, 1.0 + policy.tolerance) => {
            FlowChange::Faster
        }
        _ => FlowChange::Same,
    }
}

fn is_below(rate: Rate, least: Rate, policy: &Policy) -> bool {
    rate < scaled(least, 1.0 - policy.tolerance)
}

fn vanished<'a>(
    flows: &'a [Judged],
    concerned: &'a BTreeSet<FlowKey>,
) -> impl Iterator<Item = Reason> + 'a {
    let seen = |judged: &Judged| judged.before.is_some() && judged.after.is_some();
    let seen = move |flow: &FlowKey| flows.iter().any(|j| j.flow == *flow && seen(j));
    concerned
        .iter()
        .copied()
        .filter(move |flow| !seen(flow))
        .map(|flow| Reason::Vanished { flow })
}

fn too_little_gain(
    flows: &[Judged],
    concerned: &BTreeSet<FlowKey>,
    policy: &Policy,
) -> Option<Reason> {
    let of = |flow: &&Judged| concerned.contains(&flow.flow);
    let mean = |spread: Option<RateSummary>| spread.map(|spread| spread.mean);
    let before = flows
        .iter()
        .filter(of)
        .filter_map(|flow| mean(flow.before))
        .min()?;
    let after = flows
        .iter()
        .filter(of)
        .filter_map(|flow| mean(flow.after))
        .min()?;
    let needed = scaled(before, 1.0 + policy.margin());
    (after < needed).then_some(Reason::TooLittleGain {
        before,
        after,
        needed,
    })
}

/// Flows that are slower than before, and than predicted by a plan that is made for them. A plan made for something
/// else has listed them, and its operator forced it.
fn suffering(
    flows: &[Judged],
    concerned: &BTreeSet<FlowKey>,
    policy: &Policy,
) -> impl Iterator<Item = Reason> {
    flows
        .iter()
        .filter(|flow| flow.change == FlowChange::Slower)
        .filter_map(|flow| {
            let (before, after) = (flow.before?.mean, flow.after?.mean);
            let predicted = flow.predicted.filter(|_| concerned.contains(&flow.flow));
            let foreseen = predicted.is_some_and(|[low, _]| !is_below(after, low, policy));
            (!foreseen).then_some(Reason::GotSlower {
                flow: flow.flow,
                before,
                after,
            })
        })
}

#[cfg(test)]
mod tests;
