//! The rollback of a migration: when a plan is rolled back, and over which steps. It is retried until it succeeds.

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
use crate::plan::migration::{NoSafeOrder, plan_migration};

/// Handles an operator's abort. Returns whether nothing else is to be done. While circuits may be moving, the abort
/// waits for them; while no rollback is possible, the running step continues and no other begins.
pub(super) fn is_given_up(
    turn: &mut DecisionContext<'_>,
    rollout: &Rollout,
    migration: &Migration,
) -> bool {
    let Some(aborted) = rollout.aborted() else {
        return false;
    };
    if migration.leads_back() || migration.is_moving() {
        return false;
    }
    turn_back_or_hold(turn, &rollout.plan, migration, vec![aborted]);
    let begins = matches!(migration.stage, Stage::Due | Stage::Proven);
    begins || !turn.out.is_settled()
}

/// Rolls back. An outdated rollback is planned again from the present state, if its first step is sound now.
pub(super) fn give_up(
    turn: &mut DecisionContext<'_>,
    plan: &Plan,
    migration: &Migration,
    reasons: Vec<Reason>,
) {
    let is_stale = migration.leads_back() && judge_now(turn, plan, migration).is_err();
    let replanned = way_back(turn, plan, migration).filter(|_| is_stale);
    let leads_on = |migration_plan: &MigrationPlan| {
        let first = migration_plan.steps().next();
        first.is_none_or(|(_, step)| judge(turn, plan, step).is_ok())
    };
    match replanned.filter(leads_on) {
        Some(migration_plan) => turn_back(turn, plan, migration, &migration_plan, reasons),
        None => turn_back_or_hold(turn, plan, migration, reasons),
    }
}

/// Rolls the migration back to its start, or holds it. A running rollback waits.
pub(super) fn turn_back_or_hold(
    turn: &mut DecisionContext<'_>,
    plan: &Plan,
    migration: &Migration,
    reasons: Vec<Reason>,
) {
    let is_of_pins = !is_needed(turn.known, turn.state.in_force(), plan);
    if is_of_pins && !migration.leads_back() {
        return undo(turn, plan, migration, reasons);
    }
    let back = way_back(turn, plan, migration).filter(|_| !migration.leads_back());
    match back {
        Some(migration_plan) => turn_back(turn, plan, migration, &migration_plan, reasons),
        None if migration.is_held() => {}
        None => hold(turn, plan, reasons),
    }
}

/// Rolls back a plan of pins: all its nodes return to the state in force.
fn undo(turn: &mut DecisionContext<'_>, plan: &Plan, migration: &Migration, reasons: Vec<Reason>) {
    let in_force = turn.state.in_force();
    let targets = nodes_of(&migration.plan).map(|node| (node, in_force.holding(node)));
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
    migration: &Migration,
    migration_plan: &MigrationPlan,
    reasons: Vec<Reason>,
) {
    let around = EffectiveState::new(turn.state, turn.known.fabric, plan.generation);
    turn.decide(Change::TurnedBack {
        generation: plan.generation,
        migration_plan: settled(
            migration_plan,
            &around.tables,
            &unsure_of(migration, &around.tables),
        ),
        reasons,
    });
}

pub(super) fn hold(turn: &mut DecisionContext<'_>, plan: &Plan, reasons: Vec<Reason>) {
    turn.decide(Change::Held {
        generation: plan.generation,
        reasons,
    });
}

fn way_back(
    turn: &DecisionContext<'_>,
    plan: &Plan,
    migration: &Migration,
) -> Option<MigrationPlan> {
    let (in_force, claims) = (turn.state.in_force(), turn.claims(plan));
    let mut around = EffectiveState::new(turn.state, turn.known.fabric, plan.generation);
    around.own_unsure = unsure_of(migration, &around.tables);
    let before = in_force.circuits_of(turn.known.fabric);
    let (tables, circuits) = wanted(&around, &claims, &in_force.tables, &before);
    let mut avoided = down(turn.world(), &around.circuits);
    avoided.extend(unconfirmed_links(turn.known.fabric, migration, &before));
    let no_links = BTreeSet::new();
    let pinned = pinned_back(turn, plan, migration);
    let back = |down| {
        let laid = plan_migration(start(turn, &around, down, &claims), &tables, &circuits);
        laid.map(|laid| between_pins(laid, pinned.clone(), [&around.tables, &tables]))
    };
    // If no path avoids the links that are down, the previous state is restored anyway.
    let back = back(&avoided).or_else(|NoSafeOrder| back(&no_links));
    let back = back.or_else(|NoSafeOrder| {
        migration
            .retraced(&in_force.tables, &before)
            .ok_or(NoSafeOrder)
    });
    back.ok()
        .filter(|migration_plan| beyond(migration_plan, &claims).is_none())
}

/// Nodes that may hold other tables than these. A node that is only uncertain about its pins needs no round for its
/// table: it would refuse that round, too.
fn unsure_of(migration: &Migration, tables: &Tables) -> Round {
    let mut unsure = migration.unsure_now();
    unsure.retain(|node, table| !leads_alike(tables.get(node), Some(&*table)));
    unsure
}

/// Nodes that may hold pins of the plan, and nodes that may lack pins in force. A rollback does not know how far the
/// plan came, so there these are all of them.
fn pinned_back(
    turn: &DecisionContext<'_>,
    plan: &Plan,
    migration: &Migration,
) -> [BTreeSet<NodeId>; 2] {
    let [lifted, set] = lifted_and_set(&turn.state.in_force().pins, &plan.pins);
    let (begun, all) = (migration.begun(), migration.plan.steps().count());
    let are_set = migration.leads_back() || begun == all;
    let are_lifted = migration.leads_back() || begun > 0;
    [(set, are_set), (lifted, are_lifted)]
        .map(|(nodes, may_differ)| if may_differ { nodes } else { BTreeSet::new() })
}

/// Links over circuits whose light is not confirmed. A reading may show light that does not last.
fn unconfirmed_links(fabric: &Fabric, migration: &Migration, first: &Circuits) -> Vec<LinkId> {
    let mut links = fabric.lit(&migration.unconfirmed_circuits(first));
    links.retain(|&link| fabric.crossing(link).is_some());
    links
}
