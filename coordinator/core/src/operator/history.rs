//! What was changed, by whom, and what came of it.

use reweave_common::operator::{FlowOutcome, Outcome, Plan as NamedPlan, Record};
use reweave_common::plan::Plan;

use super::status::millis;
use crate::model::Known;
use crate::reason::Reason;
use crate::state::{self, Ended, Phase, Rollout, Signed, State};
use crate::verify::Verdict;

/// The newest first, and before it what is under way.
pub(super) fn history(known: Known<'_>, state: &State) -> Vec<Record> {
    let running = state.rollout().map(|rollout| running(known, rollout));
    let ended = state
        .history()
        .rev()
        .map(|ended| ended_record(known, ended));
    running.into_iter().chain(ended).collect()
}

fn running(known: Known<'_>, rollout: &Rollout) -> Record {
    let outcome = match &rollout.phase {
        Phase::Held(undo) => Outcome::Held {
            reasons: words(known, &undo.reasons),
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

fn ended_record(known: Known<'_>, ended: &Ended) -> Record {
    let outcome = outcome(known, &ended.outcome);
    let signed = [Some(&ended.proposed), ended.approved.as_ref()];
    let record = record(known, &ended.plan, signed, ended.verdict.as_ref(), outcome);
    Record {
        ended_age_ms: Some(millis(known.now.since(ended.at))),
        ..record
    }
}

fn outcome(known: Known<'_>, outcome: &state::Outcome) -> Outcome {
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
    known: Known<'_>,
    plan: &Plan,
    [proposed, approved]: [Option<&Signed>; 2],
    verdict: Option<&Verdict>,
    outcome: Outcome,
) -> Record {
    let name = |signed: &Signed| signed.by.to_string();
    Record {
        plan: NamedPlan::named(plan, known.fabric),
        proposed_by: proposed.map(name).unwrap_or_default(),
        approved_by: approved.map(name),
        age_ms: proposed.map_or(0, |signed| millis(known.now.since(signed.at))),
        ended_age_ms: None,
        outcome,
        flows: verdict.map(flow_outcomes).unwrap_or_default(),
    }
}

fn flow_outcomes(verdict: &Verdict) -> Vec<FlowOutcome> {
    let outcome = |judged: &crate::verify::Judged| FlowOutcome {
        flow: judged.flow,
        before_bits_per_s: judged.before.map(|spread| spread.mean),
        predicted_bits_per_s: judged.predicted,
        measured_bits_per_s: judged.after.map(|spread| spread.mean),
        change: judged.change,
    };
    verdict.flows.iter().map(outcome).collect()
}

fn words(known: Known<'_>, reasons: &[Reason]) -> Vec<String> {
    reasons
        .iter()
        .map(|reason| reason.words(known.fabric))
        .collect()
}
