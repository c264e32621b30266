//! The change history: what was changed, by whom, and with which result.

use reweave_common::operator::{FlowOutcome, IterationOutcome, Outcome, Plan, Record};
use reweave_common::plan::{self, Generation};
use reweave_common::time_span::TimeSpan;

use crate::api::plan_diff;
use crate::log::millis::millis;
use crate::log::reason::Reason;
use crate::log::state::{self, Ended, Phase, Rollout, Signed, State};
use crate::log::verdict::Verdict;
use crate::model::world::Measurements;
use crate::plan::rollback_plan::before;

/// The limit of flows in one answer: each takes some hundred bytes, and a frame holds 1 MiB.
const MAX_PAGE_FLOWS: usize = 1000;

/// Changes before `before`, newest first: as many as fit into one answer, and at least one.
pub(super) fn page(
    known: Measurements<'_>,
    state: &State,
    before: Option<Generation>,
) -> Vec<Record> {
    let is_older = |record: &Record| before.is_none_or(|before| record.plan.generation < before);
    as_many_as_fit(all(known, state).filter(is_older), size)
}

fn as_many_as_fit<T>(all: impl Iterator<Item = T>, size: impl Fn(&T) -> usize) -> Vec<T> {
    let mut reported_count = 0;
    let fits = |one: &T| {
        let is_first = reported_count == 0;
        reported_count += 1 + size(one);
        is_first || reported_count <= MAX_PAGE_FLOWS
    };
    all.take_while(fits).collect()
}

/// One change with everything that it replaced, as far as that is still known.
pub(super) fn find(
    known: Measurements<'_>,
    state: &State,
    generation: Generation,
) -> Option<Record> {
    let record = all(known, state).find(|record| record.plan.generation == generation)?;
    let ended = state.history().map(|ended| &ended.plan);
    let mut plans = ended.chain(state.rollouts().map(|rollout| &rollout.plan));
    let plan = plans.find(|plan| plan.generation == generation)?;
    let changes = |before| plan_diff::changes(known.fabric, &before, plan);
    let changes = before(state, plan).map(changes).unwrap_or_default();
    let plan = Plan {
        changes,
        ..record.plan
    };
    Some(Record { plan, ..record })
}

/// Running changes, and then ended ones, newest first.
fn all<'a>(known: Measurements<'a>, state: &'a State) -> impl Iterator<Item = Record> + 'a {
    let open = state.rollouts().rev();
    let open = open.map(move |rollout| running(known, rollout));
    let ended = state.history().rev();
    let ended = ended.map(move |ended| ended_record(known, ended));
    open.chain(ended)
}

fn size(record: &Record) -> usize {
    let Plan {
        moves,
        pins,
        predictions,
        iterations,
        report,
        ..
    } = &record.plan;
    let alternatives = report.alternatives.iter();
    let lost: usize = alternatives.map(|lost| lost.moves.len()).sum();
    record.flows.len() + moves.len() + pins.len() + predictions.len() + iterations.len() + lost
}

fn running(known: Measurements<'_>, rollout: &Rollout) -> Record {
    let outcome = match &rollout.phase {
        Phase::Migrating(migration) if migration.is_held() => Outcome::Held {
            reasons: words(known, migration.reasons()),
        },
        Phase::Proposed => Outcome::Offered,
        _ => Outcome::Running,
    };
    let signed = [Some(&rollout.proposed), rollout.approved.as_ref()];
    record(
        known,
        &rollout.plan,
        signed,
        rollout.verdict.as_ref(),
        outcome,
    )
}

fn ended_record(known: Measurements<'_>, ended: &Ended) -> Record {
    let outcome = outcome(known, &ended.outcome);
    let signed = [Some(&ended.proposed), ended.approved.as_ref()];
    let record = record(known, &ended.plan, signed, ended.verdict.as_ref(), outcome);
    Record {
        ended_age_ms: Some(millis(known.now.since(ended.at))),
        ..record
    }
}

fn outcome(known: Measurements<'_>, outcome: &state::Outcome) -> Outcome {
    match outcome {
        state::Outcome::Committed => Outcome::Committed,
        state::Outcome::Refused { reasons } | state::Outcome::Withdrawn { reasons } => {
            Outcome::Abandoned {
                reasons: words(known, reasons),
            }
        }
        state::Outcome::RolledBack {
            generation,
            reasons,
        } => Outcome::RolledBack {
            reasons: words(known, reasons),
            generation: *generation,
        },
    }
}

fn record(
    known: Measurements<'_>,
    plan: &plan::Plan,
    [proposed, approved]: [Option<&Signed>; 2],
    verdict: Option<&Verdict>,
    outcome: Outcome,
) -> Record {
    let name = |signed: &Signed| signed.by.to_string();
    Record {
        plan: Plan::named(plan, known.fabric),
        proposed_by: proposed.map(name).unwrap_or_default(),
        approved_by: approved.map(name),
        age_ms: proposed.map_or(0, |signed| millis(known.now.since(signed.at))),
        ended_age_ms: None,
        outcome,
        flows: verdict.map(flow_outcomes).unwrap_or_default(),
        iterations: verdict.map(iteration_outcomes).unwrap_or_default(),
    }
}

fn flow_outcomes(verdict: &Verdict) -> Vec<FlowOutcome> {
    verdict
        .flows
        .iter()
        .map(|judged| FlowOutcome {
            flow: judged.flow,
            before_bits_per_s: judged.before.map(|spread| spread.mean),
            predicted_bits_per_s: judged.predicted,
            measured_bits_per_s: judged.after.map(|spread| spread.mean),
            change: judged.change,
        })
        .collect()
}

fn iteration_outcomes(verdict: &Verdict) -> Vec<IterationOutcome> {
    let ms = |time: TimeSpan| time.as_secs_f64() * 1e3;
    verdict
        .iterations
        .iter()
        .map(|judged| IterationOutcome {
            job: judged.job.clone(),
            before_ms: ms(judged.before),
            predicted_ms: judged.predicted.map(ms),
            measured_ms: judged.after.map(ms),
        })
        .collect()
}

fn words<'r>(
    known: Measurements<'_>,
    reasons: impl IntoIterator<Item = &'r Reason>,
) -> Vec<String> {
    crate::log::reason_list::texts(reasons, known.fabric)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_fits_frame_and_is_nonempty() {
        let page = |sizes: &[usize]| as_many_as_fit(sizes.iter().copied(), |size| *size).len();
        assert_eq!(page(&[]), 0);
        assert_eq!(page(&[MAX_PAGE_FLOWS * 9, 1]), 1);
        assert_eq!(page(&[MAX_PAGE_FLOWS / 2 - 1; 3]), 2);
        assert_eq!(page(&[0; 2 * MAX_PAGE_FLOWS]), MAX_PAGE_FLOWS);
    }
}
