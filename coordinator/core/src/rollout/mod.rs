//! The leader's work for each running plan: it starts the plan, sends instructions, waits for acknowledgements, judges
//! the result, and rolls back.
//!
//! All essential state is replicated. This room only keeps when this leader saw it and when it sent what. So a new
//! leader continues where the log ends: it repeats unacknowledged instructions, and judges by its own readings.

use std::collections::BTreeMap;
use std::mem::{Discriminant, discriminant};
use std::time::Duration;

use reweave_common::circuit::NotSwitched;
use reweave_common::ids::{NodeId, OpticalId};
use reweave_common::instruction::{Install, Token};
use reweave_common::moment::Moment;
use reweave_common::plan::{Generation, Plan};
use reweave_common::resource_set::{Resource, ResourceSet};

use crate::log::command::{Author, Change};
use crate::log::effect::Outbox;
use crate::log::state::{self, Migration, Phase, Rollout, State, Steered, Step};
use crate::log::verdict::{Decision, Verdict};
use crate::model::world::{DecisionWorld, Measurements, World};
use crate::plan::plan_check;
use crate::rollout::verify::{After, concerned, judge};

pub(crate) mod autopilot;
mod close_sampling;
mod effective_state;
pub(crate) mod forwarding_rules;
mod idle_proof;
pub(crate) mod job_registry;
mod link_up_check;
pub(crate) mod maintenance;
mod measure;
mod migration;
mod migration_check;
mod rollback;
mod rounds;
mod start;
pub(crate) mod verify;

pub(crate) use idle_proof::{IdleTracker, Port};
pub(crate) use migration::{base_of, is_needed, named_migration};
pub(crate) use migration_check::Judge;
pub(crate) use start::{Hindrance, first_step};

/// The leader's inputs, and the outbox for its decisions.
pub(crate) struct DecisionContext<'a> {
    pub(crate) known: Measurements<'a>,
    pub(crate) decision_world: &'a DecisionWorld<'a>,
    pub(crate) state: &'a State,
    pub(crate) judge: &'a mut Judge,
    pub(crate) out: &'a mut Outbox,
}

impl<'a> DecisionContext<'a> {
    /// The same value for all decisions of this tick.
    pub(crate) fn world(&self) -> &'a World<'a> {
        self.decision_world.get()
    }
}

impl DecisionContext<'_> {
    pub(crate) fn decide(&mut self, change: Change) {
        self.out.append(self.known.now, change);
    }

    /// Proposes and approves a plan at once, in the name of `by`.
    pub(crate) fn carry_out(&mut self, plan: Plan, by: Author) {
        let generation = plan.generation;
        self.out.note_approval(&plan, by.clone());
        let proposed = self.proposal(plan, by.clone());
        let approved = Change::PlanApproved {
            generation,
            by,
            anyway: false,
        };
        self.decide(Change::Together(vec![proposed, approved]));
    }

    /// The resources that a plan needs exclusively. A proposed plan has them recorded.
    pub(crate) fn claims(&self, plan: &Plan) -> ResourceSet {
        let known = self.state.rollout(plan.generation);
        let computed = || plan_check::claims(self.world(), self.state, plan);
        known.map_or_else(computed, |it| it.claims.clone())
    }

    /// A running plan that claims some of the same resources, and which.
    pub(crate) fn in_the_way(&self, plan: &Plan) -> Option<(Generation, Resource)> {
        self.state.beside(plan.generation).next()?;
        self.state.taken(plan.generation, &self.claims(plan))
    }

    pub(crate) fn proposal(&self, plan: Plan, by: Author) -> Change {
        Change::PlanProposed {
            claims: Box::new(self.claims(&plan)),
            plan: Box::new(plan),
            by,
        }
    }

    /// Decides this in one entry with similar changes.
    pub(crate) fn decide_beside(&mut self, change: Change) {
        self.out.join(self.known.now, change);
    }
}

/// The controller of each running plan; plans share no controller state.
#[derive(Debug, Clone, Default)]
pub(crate) struct Controllers {
    plans: BTreeMap<Generation, Controller>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Controller {
    stage: Option<Stage>,
    since: Moment,
    /// How often a stall of the coordinator has restarted the timeouts of this stage.
    stalls: u32,
    /// The end of the latest such stall.
    resumed_at: Moment,
    sent: BTreeMap<NodeId, Moment>,
    switched: BTreeMap<OpticalId, Moment>,
    /// A driver's answer that leaves the device's circuits unknown.
    unclear: Option<NotSwitched>,
    /// How often an instruction of this step failed in a way that a retry may cure.
    failed_sends: u32,
    quietness: Option<IdleTracker>,
    light: Option<link_up_check::LinkUpCheck>,
    /// Requests for fast sampling.
    closeness: close_sampling::CloseSampling,
    /// When the ports of this step were last seen idle.
    proven: Option<Moment>,
    /// An operator has requested a retry at once.
    is_urged: bool,
}

/// Stalls per stage that restart its timeouts, so that a coordinator which stalls all the time still ends a plan.
const MAX_STALLS: u32 = 3;

/// A new value restarts the waiting times.
type Stage = (
    Generation,
    Discriminant<Phase>,
    Option<Token>,
    Option<StepProgress>,
    Steered,
);
/// The direction, the number of completed steps, the stage, and the token of moving circuits.
type StepProgress = (bool, usize, Discriminant<state::Stage>, Option<Token>);

impl Controllers {
    /// A reconnected node may have lost its instructions, so they are due at once.
    pub(crate) fn handle_connected(&mut self, node: NodeId) {
        for driver in self.plans.values_mut() {
            driver.sent.remove(&node);
        }
    }

    /// Records a driver's answer that leaves the circuits unknown.
    pub(crate) fn handle_unclear(&mut self, plan: Generation, why: Option<NotSwitched>) {
        let driver = self.plans.entry(plan).or_default();
        driver.handle_unclear(why);
    }

    /// Makes one decision at a time: the others have to see its effect.
    pub(crate) fn advance(&mut self, turn: &mut DecisionContext<'_>) {
        let state = turn.state;
        self.plans.retain(|plan, _| state.rollout(*plan).is_some());
        for rollout in state.rollouts() {
            let driver = self.plans.entry(rollout.plan.generation).or_default();
            if turn.out.is_settled() {
                driver.advance(turn, rollout);
            }
        }
    }
}

impl Controller {
    fn advance(&mut self, turn: &mut DecisionContext<'_>, rollout: &Rollout) {
        self.note_stage(turn.known.now, rollout);
        self.restart_after_stall(turn.known.resumed_at);
        match &rollout.phase {
            Phase::Proposed => {
                start::drop_unless_of_use(turn, &rollout.plan, self.waited(turn));
            }
            Phase::Approved if rollout.is_stopped() => {}
            Phase::Approved => start::begin(turn, &rollout.plan, self.waited(turn)),
            Phase::Migrating(migration) if rollback::is_given_up(turn, rollout, migration) => {}
            Phase::Migrating(migration) if migration.is_over() => {
                self.arrive(turn, rollout, migration);
            }
            Phase::Migrating(migration) => self.advance_migration(turn, rollout, migration),
        }
    }

    fn note_stage(&mut self, now: Moment, rollout: &Rollout) {
        let token = rollout.phase.step().map(|step| step.token);
        let progress = rollout.phase.migration().map(step_progress);
        let stage = (
            rollout.plan.generation,
            discriminant(&rollout.phase),
            token,
            progress,
            rollout.steered.clone(),
        );
        if self.stage.as_ref() != Some(&stage) {
            let place = |stage: &Stage| {
                stage
                    .3
                    .map(|(leads_back, completed, ..)| (leads_back, completed))
            };
            let was = self.stage.as_ref();
            let is_urged = was.is_some_and(|it| it.4.urged != stage.4.urged);
            let (failed_sends, proven) = if was.map(place) == Some(place(&stage)) {
                (self.failed_sends, self.proven)
            } else {
                (0, None)
            };
            *self = Self {
                stage: Some(stage),
                since: now,
                failed_sends,
                proven,
                is_urged,
                resumed_at: self.resumed_at,
                ..Self::default()
            };
        }
    }

    /// Restarts the stage's timeouts: during the stall, no acks and readings could arrive, and no port could be proven
    /// idle or lit.
    fn restart_after_stall(&mut self, resumed_at: Moment) {
        if resumed_at > self.since && self.stalls < MAX_STALLS {
            self.since = resumed_at;
            self.stalls += 1;
        }
        if self.resumed_at < resumed_at {
            self.resumed_at = resumed_at;
            (self.quietness, self.light) = (None, None);
        }
    }

    /// Readings from before a stall say nothing about traffic during it.
    fn watched_since(&self) -> Moment {
        self.since.max(self.resumed_at)
    }

    fn handle_unclear(&mut self, why: Option<NotSwitched>) {
        let why = why.unwrap_or(NotSwitched::TimedOut);
        self.failed_sends += u32::from(migration::is_transient(&why));
        self.unclear = Some(why);
    }

    fn arrive(&self, turn: &mut DecisionContext<'_>, rollout: &Rollout, migration: &Migration) {
        let plan = &rollout.plan;
        if migration.leads_back() {
            let generation = plan.generation;
            return turn.decide(Change::RolledBack { generation });
        }
        if rollout.is_stopped() {
            return;
        }
        match rollout.verdict.as_ref().map(|verdict| &verdict.decision) {
            Some(Decision::RollBack { reasons }) => {
                rollback::turn_back_or_hold(turn, plan, migration, reasons.clone());
            }
            _ if is_unmeasurable(turn, plan) => keep_unjudged(turn, plan),
            _ => self.judge_rates(turn, rollout),
        }
    }

    fn judge_rates(&self, turn: &mut DecisionContext<'_>, rollout: &Rollout) {
        let Measurements { now, policy, .. } = turn.known;
        let from = if is_judged_by_something(rollout) {
            self.since + policy.settle
        } else {
            self.since
        };
        if now < from {
            return;
        }
        let after = After {
            rates: measure::after(turn.world(), rollout, from),
            periods: measure::periods(turn.known, &rollout.plan, from),
        };
        let decided = |flow| after.rates.contains_key(flow) || turn.known.has_ended(flow);
        let mut awaited = rollout.before.iter().map(|before| &before.flow);
        let is_measured = awaited.all(decided);
        if !is_measured && self.waited(turn) < policy.verify_within {
            return;
        }
        let verdict = verdict(turn, rollout, &after);
        // Rates show a mistake soon, and iterations show a gain later.
        let is_heard = after.periods.iter().all(Option::is_some);
        let is_final = is_heard || rollout.anyway || self.waited(turn) >= policy.iterate_within;
        if is_final || verdict.decision != Decision::Commit {
            turn.decide(Change::Verified {
                generation: rollout.plan.generation,
                verdict,
            });
        }
    }

    fn waited(&self, turn: &DecisionContext<'_>) -> Duration {
        turn.known.now.since(self.since)
    }

    fn is_exhausted(&self, turn: &DecisionContext<'_>) -> bool {
        let policy = turn.known.policy;
        self.waited(turn)
            >= policy
                .answer_within
                .saturating_mul(policy.most_sends.max(1))
    }

    /// The instructions for every connected switch that has not acknowledged and was not instructed recently. A switch
    /// that has not reported yet may not support them, so it waits.
    fn due_installs(&self, turn: &DecisionContext<'_>, step: &Step) -> Vec<(NodeId, Install)> {
        let Measurements {
            now,
            policy,
            ingest,
            ..
        } = turn.known;
        let there = step.unanswered().filter(|&node| ingest.has_reported(node));
        let due = there.filter(|node| {
            let last = self.sent.get(node);
            last.is_none_or(|&last| now.since(last) >= policy.answer_within)
        });
        due.filter_map(|node| Some((node, step.install(node)?)))
            .collect()
    }

    fn install_all(
        &mut self,
        turn: &mut DecisionContext<'_>,
        due: Vec<(NodeId, Install)>,
        is_unconfirmed: bool,
    ) {
        let timeout = turn.known.policy.confirm_timeout();
        for (node, install) in due {
            self.sent.insert(node, turn.known.now);
            if is_unconfirmed {
                turn.out.install_unconfirmed(node, install, timeout);
            } else {
                turn.out.install(node, install);
            }
        }
    }
}

fn step_progress(migration: &Migration) -> StepProgress {
    let token = match &migration.stage {
        state::Stage::Switching(moving) => Some(moving.token),
        _ => None,
    };
    let stage = discriminant(&migration.stage);
    (
        migration.leads_back(),
        migration.completed_steps,
        stage,
        token,
    )
}

/// If there are neither flows nor jobs to judge by, nothing has to settle.
fn is_judged_by_something(rollout: &Rollout) -> bool {
    let is_idle = rollout.before.is_empty() && rollout.plan.iterations.is_empty();
    !is_idle || !concerned(&rollout.plan).is_empty()
}

/// The verdict. Flows that other running plans are to change are left to those.
fn verdict(turn: &DecisionContext<'_>, rollout: &Rollout, after: &After) -> Verdict {
    let others = measure::of_others(turn.state, rollout);
    let before = rollout.before.iter();
    let before = before.filter(|it| !others.contains(&it.flow)).copied();
    let before: Vec<_> = before.collect();
    let mut verdict = judge(&rollout.plan, &before, after, turn.known.policy);
    if rollout.anyway {
        verdict.decision = Decision::Commit;
    }
    verdict
}

/// Whether the plan only removes pins or reorders ranks, which no measurement can judge.
fn is_unmeasurable(turn: &DecisionContext<'_>, plan: &Plan) -> bool {
    let is_for_nothing = plan.only_lifts() || plan.only_reorders();
    is_for_nothing && !is_needed(turn.known, turn.state.in_force(), plan)
}

/// Keeps such a plan without a verdict: a useless pin is not restored, whatever its flow's rate, and flows do not
/// change before the ranks are restarted in the new order.
fn keep_unjudged(turn: &mut DecisionContext<'_>, plan: &Plan) {
    turn.decide(Change::Verified {
        generation: plan.generation,
        verdict: Verdict {
            decision: Decision::Commit,
            flows: Vec::new(),
            iterations: Vec::new(),
        },
    });
}

#[cfg(test)]
mod tests {
    use super::link_up_check::LinkUpCheck;
    use super::*;

    /// Checks the case in which the timeouts are no longer restarted.
    #[test]
    fn stall_restarts_idle_and_light_checks() {
        let mut driver = Controller::default();
        for stall in 1..=MAX_STALLS + 1 {
            let resumed_at = Moment::from_micros(stall.into());
            driver.quietness = Some(IdleTracker::new(Moment::default()));
            driver.light = Some(LinkUpCheck::new(Moment::default()));
            driver.restart_after_stall(resumed_at);
            assert!(driver.quietness.is_none(), "stall {stall}");
            assert!(driver.light.is_none(), "stall {stall}");
            assert_eq!(driver.watched_since(), resumed_at);
        }
        driver.light = Some(LinkUpCheck::new(Moment::default()));
        driver.restart_after_stall(driver.resumed_at);
        assert!(driver.light.is_some(), "there was no other stall");
    }
}
