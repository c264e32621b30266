//! The way back of a migration: when a plan is given up, and over which steps. It is retried until it succeeds.

use std::collections::BTreeSet;

use reweave_common::fabric::{Circuits, Fabric};
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::migration_plan::{MigrationPlan, Round, Tables};
use reweave_common::plan::Plan;

use super::DecisionContext;
use super::effective_state::EffectiveState;
use super::forwarding_rules::lifted_and_set;
use super::migration::{beyond, down, is_needed, judge, judge_now, nodes_of, start, wanted};
use super::rounds::between_pins;
use crate::log::command::{Aim, Change, StepIntent};
use crate::log::migration_steps::{leads_alike, settled};
use crate::log::reason::Reason;
use crate::log::state::{Migration, Rollout, Stage};
use crate::plan::migration::{NoSafeOrder, course};

/// Whether a person has, and nothing else is to be done. While circuits may be moving, it waits for them;
/// where no way leads back yet, what is under way goes on, and nothing more begins.
pub(super) fn is_given_up(
    turn: &mut DecisionContext<'_>,
    rollout: &Rollout,
    journey: &Migration,
) -> bool {
    let Some(aborted) = rollout.aborted() else {
        return false;
    };
    if journey.leads_back() || journey.is_moving() {
        return false;
    }
    balk(turn, &rollout.plan, journey, vec![aborted]);
    let begins = matches!(journey.stage, Stage::Due | Stage::Proven);
    begins || !turn.out.is_settled()
}

/// A rollback that was laid for a network that was another is laid again from where things are, if that
/// leads on now.
pub(super) fn give_up(
    turn: &mut DecisionContext<'_>,
    plan: &Plan,
    journey: &Migration,
    reasons: Vec<Reason>,
) {
    let is_stale = journey.leads_back() && judge_now(turn, plan, journey).is_err();
    let anew = way_back(turn, plan, journey).filter(|_| is_stale);
    let leads_on = |course: &MigrationPlan| {
        let first = course.legs().next();
        first.is_none_or(|(_, leg)| judge(turn, plan, leg).is_ok())
    };
    match anew.filter(leads_on) {
        Some(course) => turn_back(turn, plan, journey, &course, reasons),
        None => balk(turn, plan, journey, reasons),
    }
}

/// Gives it up, and goes back to where it began. A rollback in progress waits.
pub(super) fn balk(
    turn: &mut DecisionContext<'_>,
    plan: &Plan,
    journey: &Migration,
    reasons: Vec<Reason>,
) {
    let is_of_pins = !is_needed(turn.known, turn.state.in_force(), plan);
    if is_of_pins && !journey.leads_back() {
        return undo(turn, plan, journey, reasons);
    }
    let back = way_back(turn, plan, journey).filter(|_| !journey.leads_back());
    match back {
        Some(course) => turn_back(turn, plan, journey, &course, reasons),
        None if journey.is_held() => {}
        None => hold(turn, plan, reasons),
    }
}

/// All nodes of a plan of pins should hold again what they hold by the routes in force.
fn undo(turn: &mut DecisionContext<'_>, plan: &Plan, journey: &Migration, reasons: Vec<Reason>) {
    let in_force = turn.state.in_force();
    let targets = nodes_of(&journey.course).map(|node| (node, in_force.holding(node)));
    let intent = StepIntent {
        plan: plan.generation,
        generation: turn.state.next_generation(),
        aim: Aim::Undo { reasons },
        targets: targets.collect(),
    };
    turn.decide(Change::StepIntent(intent));
}

fn turn_back(
    turn: &mut DecisionContext<'_>,
    plan: &Plan,
    journey: &Migration,
    course: &MigrationPlan,
    reasons: Vec<Reason>,
) {
    let around = EffectiveState::new(turn.state, turn.known.fabric, plan.generation);
    turn.decide(Change::TurnedBack {
        generation: plan.generation,
        course: settled(course, &around.tables, &unsure_of(journey, &around.tables)),
        reasons,
    });
}

pub(super) fn hold(turn: &mut DecisionContext<'_>, plan: &Plan, reasons: Vec<Reason>) {
    turn.decide(Change::Held {
        generation: plan.generation,
        reasons,
    });
}

fn way_back(turn: &DecisionContext<'_>, plan: &Plan, journey: &Migration) -> Option<MigrationPlan> {
    let (in_force, claims) = (turn.state.in_force(), turn.claims(plan));
    let mut around = EffectiveState::new(turn.state, turn.known.fabric, plan.generation);
    around.own_unsure = unsure_of(journey, &around.tables);
    let before = in_force.circuits_of(turn.known.fabric);
    let (tables, circuits) = wanted(&around, &claims, &in_force.tables, &before);
    let mut avoided = down(turn.world(), &around.circuits);
    avoided.extend(unconfirmed_links(turn.known.fabric, journey, &before));
    let nobody_down = BTreeSet::new();
    let pinned = pinned_back(turn, plan, journey);
    let back = |down| {
        let laid = course(start(turn, &around, down, &claims), &tables, &circuits);
        laid.map(|laid| between_pins(laid, pinned.clone(), [&around.tables, &tables]))
    };
    // Where nothing leads around what is down, things are put back as they were all the same.
    let back = back(&avoided).or_else(|NoSafeOrder| back(&nobody_down));
    let back = back.or_else(|NoSafeOrder| {
        journey
            .retraced((&in_force.tables, &before))
            .ok_or(NoSafeOrder)
    });
    back.ok().filter(|course| beyond(course, &claims).is_none())
}

/// Nodes that may hold other tables than these. One that is only unsure of its pins needs no round to settle its table:
/// what it refused once it would refuse in that round, too.
fn unsure_of(journey: &Migration, tables: &Tables) -> Round {
    let mut unsure = journey.unsure_now();
    unsure.retain(|node, table| !leads_alike(tables.get(node), Some(&*table)));
    unsure
}

/// Nodes that may hold pins of the plan, and nodes that may lack pins in force. A rollback does not remember how far the plan
/// had come, so there these are all.
fn pinned_back(
    turn: &DecisionContext<'_>,
    plan: &Plan,
    journey: &Migration,
) -> [BTreeSet<NodeId>; 2] {
    let [lifted, set] = lifted_and_set(&turn.state.in_force().pins, &plan.pins);
    let (begun, all) = (journey.begun(), journey.course.legs().count());
    let are_set = journey.leads_back() || begun == all;
    let are_lifted = journey.leads_back() || begun > 0;
    [(set, are_set), (lifted, are_lifted)]
        .map(|(nodes, may_differ)| if may_differ { nodes } else { BTreeSet::new() })
}

/// Links over circuits in which light has not been confirmed. A reading may show light that comes and goes.
fn unconfirmed_links(fabric: &Fabric, journey: &Migration, first: &Circuits) -> Vec<LinkId> {
    let mut links = fabric.lit(&journey.unconfirmed_circuits(first));
    links.retain(|&link| fabric.crossing(link).is_some());
    links
}
