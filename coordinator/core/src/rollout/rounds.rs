//! Rounds of a migration: the instructions, the acknowledgements, and what is confirmed or sent again.
//!
//! A plan of pins is one round. In a plan that also changes tables or circuits, removed pins go in a round before all
//! others, and new pins come in a round after them: in between, only the pins that stay are set.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use reweave_check::check_pins;
use reweave_common::forwarding_state::ForwardingState;
use reweave_common::ids::NodeId;
use reweave_common::instruction::InstallRefusal;
use reweave_common::migration_plan::{MigrationPlan, MigrationStep, Round, Tables};
use reweave_common::plan::Plan;
use reweave_common::sample::PinRule;

use super::effective_state::EffectiveState;
use super::forwarding_rules::{self, lifted_and_set};
use super::migration::{down, judge, judge_now, network, reasons};
use super::rollback::{give_up, turn_back_or_hold};
use super::start::{all_connected, ended};
use super::{Controller, DecisionContext};
use crate::log::command::{Aim, Change, StepIntent};
use crate::log::migration_steps::{one_round, tables_of};
use crate::log::reason::Reason;
use crate::log::state::{Migration, Rollout, Step, StepAnswer};

/// Adds a round of pins before the migration, at the nodes in `first`, and one after it, at those in `last`.
pub(super) fn between_pins(
    migration_plan: MigrationPlan,
    [first, last]: [BTreeSet<NodeId>; 2],
    [before, after]: [&Tables; 2],
) -> MigrationPlan {
    let round = |nodes: BTreeSet<NodeId>, tables| one_round(tables_of(tables, nodes.into_iter()));
    let mut waves = round(first, before).waves;
    waves.extend(migration_plan.waves);
    waves.extend(round(last, after).waves);
    MigrationPlan { waves }
}

/// The complete rules of each node whose pins change.
type Rules = BTreeMap<NodeId, Vec<PinRule>>;

/// The rules with the plan's pins.
pub(super) fn planned_rules(turn: &DecisionContext<'_>, plan: &Plan) -> Result<Rules, Vec<Reason>> {
    let world = turn.world();
    let parent = &turn.state.in_force().pins;
    forwarding_rules::changed(parent, &plan.pins, world.fabric(), &world.wiring)
}

/// The rules without the pins that the plan removes or sets.
fn kept_rules(turn: &DecisionContext<'_>, plan: &Plan) -> Rules {
    let in_force = turn.state.in_force();
    let [lifted, _] = lifted_and_set(&in_force.pins, &plan.pins);
    let kept = plan.kept_of(&in_force.pins).into_iter();
    let kept: BTreeSet<_> = kept.map(|pin| (pin.at, pin.flow)).collect();
    let rules = lifted.into_iter().map(|node| {
        let ForwardingState { mut rules, .. } = in_force.holding(node);
        rules.retain(|rule| kept.contains(&(node, rule.flow)));
        (node, rules)
    });
    rules.collect()
}

/// The rules for the current step: on the last one all pins of the plan, and before it only those that stay.
fn rules_now(
    turn: &DecisionContext<'_>,
    plan: &Plan,
    migration: &Migration,
) -> Result<Rules, Vec<Reason>> {
    if !migration.is_last() {
        Ok(kept_rules(turn, plan))
    } else if migration.leads_back() {
        Ok(Rules::new())
    } else {
        planned_rules(turn, plan)
    }
}

/// The desired state of each node of a round: these rules or those in force, and the new routes.
pub(super) fn holdings(
    turn: &DecisionContext<'_>,
    round: &Round,
    changed: &Rules,
) -> Result<BTreeMap<NodeId, ForwardingState>, Vec<Reason>> {
    let world = turn.world();
    let holding = |(&node, table)| {
        let routes = forwarding_rules::routes(table, world.fabric(), &world.wiring);
        let in_force = || turn.state.in_force().holding(node).rules;
        let rules = changed.get(&node).cloned().unwrap_or_else(in_force);
        routes.map(|routes| (node, ForwardingState { rules, routes }))
    };
    let holdings: Result<_, Reason> = round.iter().map(holding).collect();
    holdings.map_err(|reason| vec![reason])
}

impl Controller {
    pub(super) fn begin_round(
        &self,
        turn: &mut DecisionContext<'_>,
        plan: &Plan,
        migration: &Migration,
        round: &Round,
    ) {
        let is_late = self.waited(turn) >= turn.known.policy.begin_within;
        let connected = all_connected(turn.known, round.keys().copied().collect());
        // For hundreds of nodes, the checker takes part of a second, and while one of them is missing this runs at
        // every tick.
        let is_settled = migration.is_held() && !self.is_urged;
        if connected.is_err() && (!is_late || is_settled) {
            return;
        }
        let sound = judge(turn, plan, MigrationStep::Round(round))
            .and_then(|()| judge_pins(turn, plan, migration));
        let ready = sound.and_then(|()| {
            connected?;
            holdings(turn, round, &rules_now(turn, plan, migration)?)
        });
        match ready {
            Ok(targets) => send_round(turn, plan, targets),
            Err(reasons) if is_late => give_up(turn, plan, migration, reasons),
            Err(_) => {}
        }
    }

    pub(super) fn tell(
        &mut self,
        turn: &mut DecisionContext<'_>,
        rollout: &Rollout,
        migration: &Migration,
        step: &Step,
    ) {
        let plan = &rollout.plan;
        if migration.is_restored() && reads_back(turn, step) {
            let generation = plan.generation;
            return turn.decide(Change::RolledBack { generation });
        }
        let is_exhausted = self.is_exhausted(turn);
        let failures = step.failures();
        let failures = failures.filter(|(node, _)| is_exhausted || !migration.has_followed(*node));
        let mut reasons: Vec<_> = failures.map(failure).collect();
        let has_failed = !reasons.is_empty();
        if is_exhausted {
            reasons.extend(step.unanswered().map(|node| Reason::Silent { node }));
        }
        let may_turn = !migration.leads_back();
        if may_turn {
            reasons.extend(ended(turn.known, plan));
        }
        let gives_up = if may_turn {
            !rollout.is_stopped()
        } else {
            self.has_tried_enough(turn)
        };
        if !reasons.is_empty() && gives_up && !migration.is_held() {
            reasons.extend(judge_now(turn, plan, migration).err().into_iter().flatten());
            return turn_back_or_hold(turn, plan, migration, reasons);
        }
        let is_again = has_failed && !rollout.is_stopped();
        let is_again = is_again && self.waited(turn) >= self.pause(turn, migration);
        self.send_due(turn, plan, migration, step, is_again);
    }

    /// Sends unacknowledged instructions, repeats the step, or confirms it.
    fn send_due(
        &mut self,
        turn: &mut DecisionContext<'_>,
        plan: &Plan,
        migration: &Migration,
        step: &Step,
        is_again: bool,
    ) {
        let due = self.due_installs(turn, step);
        let is_to_be_confirmed = migration.is_unconfirmed() && step.all_done();
        // The step may have become unsound since its first instruction.
        if !is_again && due.is_empty() && !is_to_be_confirmed {
            return;
        }
        if let Err(reasons) = judge_now(turn, plan, migration) {
            let is_late = self.waited(turn) >= turn.known.policy.begin_within;
            if is_late && (migration.leads_back() || is_to_be_confirmed) {
                give_up(turn, plan, migration, reasons);
            }
            return;
        }
        if is_to_be_confirmed {
            let plan = plan.generation;
            return turn.decide(Change::ConfirmIntent { plan });
        }
        if is_again {
            let instructed = step.targets.iter();
            let targets = instructed.map(|(&node, target)| (node, target.holding.clone()));
            self.failed_sends += 1;
            return send_round(turn, plan, targets.collect());
        }
        self.install_all(turn, due, migration.is_unconfirmed());
    }

    /// A rollback is retried this often before it counts as held.
    pub(super) fn has_tried_enough(&self, turn: &DecisionContext<'_>) -> bool {
        self.is_exhausted(turn) || self.failed_sends >= turn.known.policy.most_sends.max(1)
    }

    /// The pause between retries. It is long for a held plan, unless nodes only reported numbers to exceed.
    pub(super) fn pause(&self, turn: &DecisionContext<'_>, migration: &Migration) -> Duration {
        let policy = turn.known.policy;
        let are_ahead = |step: &Step| step.failures().all(|(_, answer)| is_ahead(answer));
        if self.is_urged {
            Duration::ZERO
        } else if migration.is_held() && !migration.step().is_some_and(are_ahead) {
            policy.retry_held_after
        } else {
            policy.answer_within
        }
    }
}

/// Whether pins may be removed now, before all else, or set at the end. Their rollback is as sound as the state
/// before.
fn judge_pins(
    turn: &DecisionContext<'_>,
    plan: &Plan,
    migration: &Migration,
) -> Result<(), Vec<Reason>> {
    let in_force = &turn.state.in_force().pins;
    let kept = plan.kept_of(in_force);
    let is_first = migration.completed_steps == 0;
    let before = if is_first { in_force } else { &kept };
    let after = if migration.is_last() {
        &plan.pins
    } else {
        &kept
    };
    let differing = lifted_and_set(before, after);
    if migration.leads_back() || differing.iter().all(BTreeSet::is_empty) {
        return Ok(());
    }
    let around = EffectiveState::new(turn.state, turn.known.fabric, plan.generation);
    let down = down(turn.world(), &around.circuits);
    check_pins(&network(turn, &around, &down, before), after).map_err(reasons)
}

fn send_round(
    turn: &mut DecisionContext<'_>,
    plan: &Plan,
    targets: BTreeMap<NodeId, ForwardingState>,
) {
    turn.decide(Change::StepIntent(StepIntent {
        plan: plan.generation,
        generation: turn.state.next_generation(),
        aim: Aim::Round,
        targets,
    }));
}

/// Whether fresh readings show that nodes which refused hold the desired state as far as their interfaces are up.
fn reads_back(turn: &DecisionContext<'_>, step: &Step) -> bool {
    let known = turn.known;
    step.on_their_word().all(|(node, target)| {
        let observed = known.ingest.observations().node(node);
        let holds = observed.and_then(|observed| observed.holds.as_ref());
        let most_age = known.policy.most_age();
        let is_fresh = holds.is_some_and(|holds| holds.is_fresh(known.now, most_age));
        is_fresh && known.left_out(node, &target.holding).is_some()
    })
}

/// Whether the switch accepts the next instruction, because its number exceeds all that the switch knows.
fn is_ahead(answer: &StepAnswer) -> bool {
    use InstallRefusal::{DifferentContent, Older};
    matches!(
        answer,
        StepAnswer::Refused(Older { .. } | DifferentContent { .. })
    )
}

fn failure((node, answer): (NodeId, &StepAnswer)) -> Reason {
    match answer {
        StepAnswer::Refused(refusal) => Reason::Refused {
            node,
            refusal: refusal.clone(),
        },
        StepAnswer::HoldsOtherRules | StepAnswer::Done => Reason::HoldsOtherRules { node },
    }
}
