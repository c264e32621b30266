//! May a plan begin? Asked when it is approved, and again just before its first instruction.

use std::time::Duration;

use reweave_common::ids::NodeId;
use reweave_common::plan::Plan;

use super::{Turn, measure};
use crate::command::{Aim, Change, StepIntent};
use crate::model::Known;
use crate::reason::Reason;
use crate::rules;
use crate::soundness;
use crate::state::State;
use crate::verify::concerned;

/// What is wrong with a plan itself, whatever is measured.
pub(crate) fn objections(known: Known<'_>, state: &State, plan: &Plan) -> Vec<Reason> {
    let (parent, in_force) = (plan.parent, state.in_force().generation);
    let stale = (parent != in_force).then_some(Reason::Stale { parent, in_force });
    let unsound = soundness::objection(plan, known.fabric, &state.in_force().pins);
    stale.into_iter().chain(unsound).collect()
}

/// A plan for flows that are gone mends nothing. Whether it was dropped.
pub(super) fn drop_if_pointless(turn: &mut Turn<'_>, plan: &Plan) -> bool {
    let reasons: Vec<_> = ended(turn.known, plan).collect();
    let pointless = !reasons.is_empty();
    if pointless {
        turn.decide(Change::PlanWithdrawn {
            generation: plan.generation,
            reasons,
        });
    }
    pointless
}

pub(super) fn ended(known: Known<'_>, plan: &Plan) -> impl Iterator<Item = Reason> {
    let ended = concerned(plan)
        .into_iter()
        .filter(move |flow| known.has_ended(flow));
    ended.map(|flow| Reason::FlowEnded { flow })
}

/// Makes the first step of an approved plan durable, or drops the plan. What is only not known yet
/// is waited for.
pub(super) fn begin(turn: &mut Turn<'_>, plan: &Plan, waited: Duration) {
    if drop_if_pointless(turn, plan) {
        return;
    }
    let generation = plan.generation;
    let objections = objections(turn.known, turn.state, plan);
    if !objections.is_empty() {
        return turn.decide(Change::PlanRefused {
            generation,
            reasons: objections,
        });
    }
    match first_step(turn, plan) {
        Ok(intent) => turn.decide(Change::StepIntent(intent)),
        Err(_) if waited < turn.known.policy.begin_within => {}
        Err(reasons) => turn.decide(Change::PlanRefused {
            generation,
            reasons,
        }),
    }
}

fn first_step(turn: &Turn<'_>, plan: &Plan) -> Result<StepIntent, Vec<Reason>> {
    let picture = turn.known.picture();
    let before = measure::before(turn.known, &picture, plan)?;
    let parent = &turn.state.in_force().pins;
    let targets = rules::changed(parent, &plan.pins, turn.known.fabric, &picture.wiring)?;
    all_connected(turn.known, targets.keys().copied())?;
    Ok(StepIntent {
        generation: plan.generation,
        aim: Aim::Install { before },
        targets,
    })
}

fn all_connected(
    known: Known<'_>,
    switches: impl Iterator<Item = NodeId>,
) -> Result<(), Vec<Reason>> {
    let gone = switches.filter(|&node| !known.is_fresh(node));
    let gone: Vec<_> = gone.map(|node| Reason::NotConnected { node }).collect();
    if gone.is_empty() { Ok(()) } else { Err(gone) }
}
