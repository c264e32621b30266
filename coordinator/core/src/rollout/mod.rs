//! What the leader does about each running plan: starts it, sends its instructions, waits for the answers, judges it,
//! rolls it back.
//!
//! All essential state is replicated. This room only keeps since when this leader has seen it, and when it sent what.
//! So a new leader continues where the log ends: it sends unanswered instructions again, and judges by its own
//! readings.

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
pub(crate) use migration::{base_of, course_of, is_needed};
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
    /// One and the same for all that is decided now.
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

    /// What a plan needs for itself alone. One that was proposed has said so.
    pub(crate) fn claims(&self, plan: &Plan) -> ResourceSet {
        let known = self.state.rollout(plan.generation);
        let anew = || plan_check::claims(self.world(), self.state, plan);
        known.map_or_else(anew, |it| it.claims.clone())
    }

    /// The plan on its way beside which this one cannot be, and what both need.
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

    /// Together with others that ask for the like.
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
    /// Stalls of the coordinator that restarted the timeouts of this stage.
    stalls: u32,
    /// End of the latest of them.
    resumed_at: Moment,
    sent: BTreeMap<NodeId, Moment>,
    switched: BTreeMap<OpticalId, Moment>,
    /// An answer of a driver that leaves open what the device holds.
    unclear: Option<NotSwitched>,
    /// How often an instruction of this step led to nothing, though the next may.
    in_vain: u32,
    quietness: Option<IdleTracker>,
    light: Option<link_up_check::LinkUpCheck>,
    /// Of whom it wants to hear much.
    closeness: close_sampling::CloseSampling,
    /// When what moves on this step was last seen to be idle.
    proven: Option<Moment>,
    /// An operator has requested a retry at once.
    is_urged: bool,
}

/// Stalls per stage that restart its timeouts, so that a coordinator which stalls all the time still ends a plan.
const MAX_STALLS: u32 = 3;

/// With another stage, all waiting begins again.
type Stage = (
    Generation,
    Discriminant<Phase>,
    Option<Token>,
    Option<StepProgress>,
    Steered,
);
/// Whether it leads back, which step it is, and how far that has come.
type StepProgress = (bool, usize, Discriminant<state::Stage>, Option<Token>);

impl Controllers {
    /// What was sent to it before may be lost, so it is due at once.
    pub(crate) fn handle_connected(&mut self, node: NodeId) {
        for driver in self.plans.values_mut() {
            driver.sent.remove(&node);
        }
    }

    /// What a driver said of this plan that does not tell where things are.
    pub(crate) fn handle_unclear(&mut self, plan: Generation, why: Option<NotSwitched>) {
        let driver = self.plans.entry(plan).or_default();
        driver.handle_unclear(why);
    }

    /// One decision at a time: what it changes the others have to see.
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
            Phase::Migrating(journey) if rollback::is_given_up(turn, rollout, journey) => {}
            Phase::Migrating(journey) if journey.is_over() => self.arrive(turn, rollout, journey),
            Phase::Migrating(journey) => self.travel(turn, rollout, journey),
        }
    }

    fn note_stage(&mut self, now: Moment, rollout: &Rollout) {
        let token = rollout.phase.step().map(|step| step.token);
        let leg = rollout.phase.journey().map(step_progress);
        let stage = (
            rollout.plan.generation,
            discriminant(&rollout.phase),
            token,
            leg,
            rollout.steered.clone(),
        );
        if self.stage.as_ref() != Some(&stage) {
            let place = |stage: &Stage| stage.3.map(|(leads_back, leg, ..)| (leads_back, leg));
            let was = self.stage.as_ref();
            let is_urged = was.is_some_and(|it| it.4.urged != stage.4.urged);
            let (in_vain, proven) = if was.map(place) == Some(place(&stage)) {
                (self.in_vain, self.proven)
            } else {
                (0, None)
            };
            *self = Self {
                stage: Some(stage),
                since: now,
                in_vain,
                proven,
                is_urged,
                resumed_at: self.resumed_at,
                ..Self::default()
            };
        }
    }

    /// Restarts the stage's timeouts: acks and readings could not be received during the stall. Nor was any port seen
    /// to be idle or to have light then.
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

    /// Readings from before a stall say nothing of what passed a port during it.
    fn watched_since(&self) -> Moment {
        self.since.max(self.resumed_at)
    }

    fn handle_unclear(&mut self, why: Option<NotSwitched>) {
        let why = why.unwrap_or(NotSwitched::TimedOut);
        self.in_vain += u32::from(migration::may_pass(&why));
        self.unclear = Some(why);
    }

    fn arrive(&self, turn: &mut DecisionContext<'_>, rollout: &Rollout, journey: &Migration) {
        let plan = &rollout.plan;
        if journey.leads_back() {
            let generation = plan.generation;
            return turn.decide(Change::RolledBack { generation });
        }
        if rollout.is_stopped() {
            return;
        }
        match rollout.verdict.as_ref().map(|verdict| &verdict.decision) {
            Some(Decision::RollBack { reasons }) => {
                rollback::balk(turn, plan, journey, reasons.clone());
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
            rates: measure::after(turn.known, rollout, from),
            periods: measure::periods(turn.known, &rollout.plan, from),
        };
        let decided = |flow| after.rates.contains_key(flow) || turn.known.has_ended(flow);
        let mut awaited = rollout.before.iter().map(|before| &before.flow);
        let is_measured = awaited.all(decided);
        if !is_measured && self.waited(turn) < policy.verify_within {
            return;
        }
        let verdict = verdict(turn, rollout, &after);
        // Rates tell soon of a mistake, and iterations of a gain.
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

    /// For every connected switch that has not answered, and was not instructed just now. Before it has reported, it is
    /// unknown what it would do with that.
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

fn step_progress(journey: &Migration) -> StepProgress {
    let token = match &journey.stage {
        state::Stage::Switching(moving) => Some(moving.token),
        _ => None,
    };
    let stage = discriminant(&journey.stage);
    (journey.leads_back(), journey.leg, stage, token)
}

/// Else there is nothing that would have to settle.
fn is_judged_by_something(rollout: &Rollout) -> bool {
    let is_idle = rollout.before.is_empty() && rollout.plan.iterations.is_empty();
    !is_idle || !concerned(&rollout.plan).is_empty()
}

/// Flows that other plans on their way have in hand are theirs to judge.
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

/// Whether pins are only lifted, or ranks reordered: there is nothing to measure it by.
fn is_unmeasurable(turn: &DecisionContext<'_>, plan: &Plan) -> bool {
    let is_for_nothing = plan.only_lifts() || plan.only_reorders();
    is_for_nothing && !is_needed(turn.known, turn.state.in_force(), plan)
}

/// A pin that serves no longer is not put back, whatever rate its flow gets without it; nor does a flow get anything by
/// an order that ranks are not in yet.
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

    /// Also where the timeouts of the stage are not restarted any longer.
    #[test]
    fn stall_restarts_idle_and_light_checks() {
        let mut driver = Controller::default();
        for stall in 1..=MAX_STALLS + 1 {
            let resumed_at = Moment::from_micros(stall.into());
            driver.quietness = Some(IdleTracker::new(Moment::default()));
            driver.light = Some(LinkUpCheck::new(Moment::default(), Duration::ZERO));
            driver.restart_after_stall(resumed_at);
            assert!(driver.quietness.is_none(), "stall {stall}");
            assert!(driver.light.is_none(), "stall {stall}");
            assert_eq!(driver.watched_since(), resumed_at);
        }
        driver.light = Some(LinkUpCheck::new(Moment::default(), Duration::ZERO));
        driver.restart_after_stall(driver.resumed_at);
        assert!(driver.light.is_some(), "there was no other stall");
    }
}
