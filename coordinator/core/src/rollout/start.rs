//! Whether a plan may start. Checked at its approval, and again just before its first instruction.

use std::collections::BTreeSet;
use std::time::Duration;

use reweave_common::forwarding_state::ForwardingState;
use reweave_common::ids::NodeId;
use reweave_common::plan::Plan;

use super::{DecisionContext, measure, migration};
use crate::log::command::{Aim, Change, StepIntent};
use crate::log::reason::Reason;
use crate::model::world::Measurements;
use crate::plan::{change_freeze, plan_check, stale_pins};
use crate::rollout::forwarding_rules;
use crate::rollout::verify::concerned;

/// Why a plan may not start.
pub(crate) enum Hindrance {
    /// Temporary: a fact or a node is missing.
    Unready(Vec<Reason>),
    /// Permanent: the plan is unsound.
    Wrong(Vec<Reason>),
    /// The check of its migration is not complete yet.
    Unjudged,
}

/// The first log entry of a plan, if the plan may start.
pub(crate) fn first_step(turn: &mut DecisionContext<'_>, plan: &Plan) -> Result<Change, Hindrance> {
    if let Some(too_large) = plan_check::too_large(turn.known.fabric, plan) {
        return Err(Hindrance::Wrong(vec![too_large]));
    }
    let in_force = turn.state.in_force();
    let touched = change_freeze::objections(turn.world(), turn.state, plan);
    if !touched.is_empty() {
        return Err(Hindrance::Unready(touched));
    }
    let other_ranks = turn.state.other_ranks(plan);
    if !other_ranks.is_empty() {
        return Err(Hindrance::Wrong(other_ranks));
    }
    if let Some((by, what)) = turn.in_the_way(plan) {
        return Err(Hindrance::Unready(vec![Reason::Taken { by, what }]));
    }
    if migration::is_needed(turn.known, in_force, plan) {
        return migration::departure(turn, plan).map(Change::Departed);
    }
    let intent = prepare(turn, plan).map_err(Hindrance::Unready)?;
    let objections = plan_check::objections(turn.world(), turn.state, plan);
    if objections.is_empty() {
        Ok(Change::StepIntent(intent))
    } else {
        Err(Hindrance::Wrong(objections))
    }
}

/// Drops a plan whose flows have ended, or that removes useless pins which are useful again. Returns whether it was
/// dropped.
pub(super) fn drop_if_pointless(turn: &mut DecisionContext<'_>, plan: &Plan) -> bool {
    let mut reasons: Vec<_> = ended(turn.known, plan).collect();
    reasons.extend(turn.state.other_ranks(plan));
    let in_force = turn.state.in_force();
    let only_pins = !migration::is_needed(turn.known, in_force, plan);
    if only_pins && stale_pins::lifts_in_vain(turn.world(), in_force, plan) {
        reasons.push(Reason::NothingToMend);
    }
    let pointless = !reasons.is_empty();
    if pointless {
        turn.decide(Change::PlanWithdrawn {
            generation: plan.generation,
            reasons,
        });
    }
    pointless
}

/// Withdraws a proposed plan that is pointless or was not approved in time.
pub(super) fn drop_unless_of_use(turn: &mut DecisionContext<'_>, plan: &Plan, waited: Duration) {
    if !drop_if_pointless(turn, plan) && waited >= turn.known.policy.offer_for {
        turn.decide(Change::PlanWithdrawn {
            generation: plan.generation,
            reasons: vec![Reason::NotApproved],
        });
    }
}

pub(super) fn ended(known: Measurements<'_>, plan: &Plan) -> impl Iterator<Item = Reason> {
    let ended = concerned(plan)
        .into_iter()
        .filter(move |flow| known.has_ended(flow));
    ended.map(|flow| Reason::FlowEnded { flow })
}

/// Starts an approved plan, or refuses it. Missing facts are waited for.
pub(super) fn begin(turn: &mut DecisionContext<'_>, plan: &Plan, waited: Duration) {
    if drop_if_pointless(turn, plan) {
        return;
    }
    let may_wait = waited < turn.known.policy.begin_within;
    let generation = plan.generation;
    match first_step(turn, plan) {
        Ok(first) => turn.decide(first),
        Err(Hindrance::Unjudged) => {}
        Err(Hindrance::Unready(_)) if may_wait => {}
        Err(Hindrance::Unready(reasons) | Hindrance::Wrong(reasons)) => {
            turn.decide(Change::PlanRefused {
                generation,
                reasons,
            });
        }
    }
}

fn prepare(turn: &DecisionContext<'_>, plan: &Plan) -> Result<StepIntent, Vec<Reason>> {
    let world = turn.world();
    let parent = &turn.state.in_force().pins;
    all_connected(turn.known, forwarding_rules::switches(parent, &plan.pins))?;
    let before = measure::before(world, plan)?;
    let rules = forwarding_rules::changed(parent, &plan.pins, turn.known.fabric, &world.wiring)?;
    let beside_routes = |(node, rules)| {
        let ForwardingState { routes, .. } = turn.state.in_force().holding(node);
        (node, ForwardingState { rules, routes })
    };
    let targets = rules.into_iter().map(beside_routes).collect();
    Ok(StepIntent {
        plan: plan.generation,
        generation: plan.generation,
        aim: Aim::Install { before },
        targets,
    })
}

pub(super) fn all_connected(
    known: Measurements<'_>,
    switches: BTreeSet<NodeId>,
) -> Result<(), Vec<Reason>> {
    let gone = switches.into_iter().filter(|&node| !known.is_fresh(node));
    let gone: Vec<_> = gone.map(|node| Reason::NotConnected { node }).collect();
    if gone.is_empty() { Ok(()) } else { Err(gone) }
}
