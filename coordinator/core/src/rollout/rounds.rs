//! Rounds of a migration: what nodes are sent, whether all have followed, and what is confirmed or sent again.
//!
//! A plan of pins is one round. In a plan that changes tables or circuits too, pins that go are lifted in a round before
//! all else, and pins that come are set in a round after that: in between, only those are there that stay.

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
use super::rollback::{balk, give_up};
use super::start::{all_connected, ended};
use super::{Controller, DecisionContext};
use crate::log::command::{Aim, Change, StepIntent};
use crate::log::migration_steps::{one_round, tables_of};
use crate::log::reason::Reason;
use crate::log::state::{Migration, Rollout, Step, StepAnswer};

/// With a round of pins before all else, at the first of these nodes, and one after it at the others.
pub(super) fn between_pins(
    course: MigrationPlan,
    [first, last]: [BTreeSet<NodeId>; 2],
    [before, after]: [&Tables; 2],
) -> MigrationPlan {
    let round = |nodes: BTreeSet<NodeId>, tables| one_round(tables_of(tables, nodes.into_iter()));
    let mut waves = round(first, before).waves;
    waves.extend(course.waves);
    waves.extend(round(last, after).waves);
    MigrationPlan { waves }
}

/// All rules of each node at which pins differ.
type Rules = BTreeMap<NodeId, Vec<PinRule>>;

/// By the plan.
pub(super) fn planned_rules(turn: &DecisionContext<'_>, plan: &Plan) -> Result<Rules, Vec<Reason>> {
    let world = turn.world();
    let parent = &turn.state.in_force().pins;
    forwarding_rules::changed(parent, &plan.pins, world.fabric(), &world.wiring)
}

/// Without those that the plan lifts or sets.
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

/// On the last step of a migration pins are as they are to be, and on all before it only those are there that stay.
fn rules_now(
    turn: &DecisionContext<'_>,
    plan: &Plan,
    journey: &Migration,
) -> Result<Rules, Vec<Reason>> {
    if !journey.is_last() {
        Ok(kept_rules(turn, plan))
    } else if journey.leads_back() {
        Ok(Rules::new())
    } else {
        planned_rules(turn, plan)
    }
}

/// What the nodes of a round should hold: these pins, or those in force, and the new routes.
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
        journey: &Migration,
        round: &Round,
    ) {
        let is_late = self.waited(turn) >= turn.known.policy.begin_within;
        let connected = all_connected(turn.known, round.keys().copied().collect());
        // Of hundreds of nodes the checker takes part of a second, and while one of them is missing this is asked at every
        // tick.
        let is_settled = journey.is_held() && !self.is_urged;
        if connected.is_err() && (!is_late || is_settled) {
            return;
        }
        let sound = judge(turn, plan, MigrationStep::Round(round))
            .and_then(|()| judge_pins(turn, plan, journey));
        let ready = sound.and_then(|()| {
            connected?;
            holdings(turn, round, &rules_now(turn, plan, journey)?)
        });
        match ready {
            Ok(targets) => tell_round(turn, plan, targets),
            Err(reasons) if is_late => give_up(turn, plan, journey, reasons),
            Err(_) => {}
        }
    }

    pub(super) fn tell(
        &mut self,
        turn: &mut DecisionContext<'_>,
        rollout: &Rollout,
        journey: &Migration,
        step: &Step,
    ) {
        let plan = &rollout.plan;
        if journey.is_restored() && reads_back(turn, step) {
            let generation = plan.generation;
            return turn.decide(Change::RolledBack { generation });
        }
        let is_exhausted = self.is_exhausted(turn);
        let failures = step.failures();
        let failures = failures.filter(|(node, _)| is_exhausted || !journey.has_followed(*node));
        let mut reasons: Vec<_> = failures.map(failure).collect();
        let has_failed = !reasons.is_empty();
        if is_exhausted {
            reasons.extend(step.unanswered().map(|node| Reason::Silent { node }));
        }
        let may_turn = !journey.leads_back();
        if may_turn {
            reasons.extend(ended(turn.known, plan));
        }
        let gives_up = if may_turn {
            !rollout.is_stopped()
        } else {
            self.has_tried_enough(turn)
        };
        if !reasons.is_empty() && gives_up && !journey.is_held() {
            reasons.extend(judge_now(turn, plan, journey).err().into_iter().flatten());
            return balk(turn, plan, journey, reasons);
        }
        let is_again = has_failed && !rollout.is_stopped();
        let is_again = is_again && self.waited(turn) >= self.pause(turn, journey);
        self.tell_due(turn, plan, journey, step, is_again);
    }

    /// What nodes have not answered yet, all of it again, or that it stays.
    fn tell_due(
        &mut self,
        turn: &mut DecisionContext<'_>,
        plan: &Plan,
        journey: &Migration,
        step: &Step,
        is_again: bool,
    ) {
        let due = self.due_installs(turn, step);
        let is_to_be_confirmed = journey.is_unconfirmed() && step.all_done();
        // A step that was sound at its first instruction may be unsound now.
        if !is_again && due.is_empty() && !is_to_be_confirmed {
            return;
        }
        if let Err(reasons) = judge_now(turn, plan, journey) {
            let is_late = self.waited(turn) >= turn.known.policy.begin_within;
            if is_late && (journey.leads_back() || is_to_be_confirmed) {
                give_up(turn, plan, journey, reasons);
            }
            return;
        }
        if is_to_be_confirmed {
            let plan = plan.generation;
            return turn.decide(Change::ConfirmIntent { plan });
        }
        if is_again {
            let told = step.targets.iter();
            let targets = told.map(|(&node, target)| (node, target.holding.clone()));
            self.in_vain += 1;
            return tell_round(turn, plan, targets.collect());
        }
        self.install_all(turn, due, journey.is_unconfirmed());
    }

    /// During a rollback it is tried some times before a person hears that it does not come about.
    pub(super) fn has_tried_enough(&self, turn: &DecisionContext<'_>) -> bool {
        self.is_exhausted(turn) || self.in_vain >= turn.known.policy.most_sends.max(1)
    }

    /// A held plan retries seldom, but where nodes have only said what to go beyond.
    pub(super) fn pause(&self, turn: &DecisionContext<'_>, journey: &Migration) -> Duration {
        let policy = turn.known.policy;
        let are_ahead = |step: &Step| step.failures().all(|(_, answer)| is_ahead(answer));
        if self.is_urged {
            Duration::ZERO
        } else if journey.is_held() && !journey.step().is_some_and(are_ahead) {
            policy.retry_held_after
        } else {
            policy.answer_within
        }
    }
}

/// Whether pins may be lifted now, before all else, or set at the end. To take them back is as sound as it was before.
fn judge_pins(
    turn: &DecisionContext<'_>,
    plan: &Plan,
    journey: &Migration,
) -> Result<(), Vec<Reason>> {
    let in_force = &turn.state.in_force().pins;
    let kept = plan.kept_of(in_force);
    let is_first = journey.leg == 0;
    let before = if is_first { in_force } else { &kept };
    let after = if journey.is_last() { &plan.pins } else { &kept };
    let differing = lifted_and_set(before, after);
    if journey.leads_back() || differing.iter().all(BTreeSet::is_empty) {
        return Ok(());
    }
    let around = EffectiveState::new(turn.state, turn.known.fabric, plan.generation);
    let down = down(turn.world(), &around.circuits);
    check_pins(&network(turn, &around, &down, before), after).map_err(reasons)
}

fn tell_round(
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

/// Whether nodes that refused are seen to hold what the step wants, by readings that are fresh.
fn reads_back(turn: &DecisionContext<'_>, step: &Step) -> bool {
    let known = turn.known;
    step.on_their_word().all(|(node, target)| {
        let observed = known.ingest.observations().node(node);
        let holds = observed.and_then(|observed| observed.holds.as_ref());
        let held = holds.filter(|holds| holds.is_fresh(known.now, known.policy.most_age()));
        held.is_some_and(|held| held.value.1.is_same_as(&target.holding))
    })
}

/// Whether a switch follows the next instruction, since that goes beyond all it knows.
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
