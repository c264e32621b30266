//! Ends registered jobs that vanished, and removes the pins of ended ones.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::ids::NodeId;
use reweave_common::moment::Moment;
use reweave_common::operator::Request;
use reweave_common::plan::Pin;

use crate::estimate::interval_timer::IntervalTimer;
use crate::log::command::{Author, Change};
use crate::log::effect::OperatorRequest;
use crate::log::registered::Registered;
use crate::model::world::{Measurements, World};
use crate::plan::proposals;
use crate::rollout::{DecisionContext, first_step};

/// When each job was last active, and the hosts of ended jobs. A new leader counts all jobs as active at its election:
/// it ends a job late rather than early.
#[derive(Debug, Clone, Default)]
pub(crate) struct JobRegistry {
    looks: IntervalTimer,
    heard: BTreeMap<String, (Moment, BTreeSet<NodeId>)>,
    /// The hosts of ended jobs.
    over: BTreeSet<BTreeSet<NodeId>>,
}

impl JobRegistry {
    /// A permitted request about a job shows that it is active.
    pub(crate) fn handle_asked(&mut self, now: Moment, asked: &OperatorRequest) {
        let Request::Job { job, .. } = &asked.request else {
            return;
        };
        let may_report = asked.request.may_be_asked_by(asked.principal.role);
        if let Some((heard, _)) = self.heard.get_mut(job).filter(|_| may_report) {
            *heard = now;
        }
    }

    /// When the job was last active, as far as this leader knows.
    pub(crate) fn heard(&self, job: &str) -> Option<Moment> {
        Some(self.heard.get(job)?.0)
    }

    pub(crate) fn advance(&mut self, turn: &mut DecisionContext<'_>) {
        let Measurements {
            now,
            policy,
            resumed_at,
            ..
        } = turn.known;
        if !self.looks.is_due(now, policy.look_every) {
            return;
        }
        self.follow(now, turn.state.registered());
        if self.heard.is_empty() && self.over.is_empty() {
            return;
        }
        self.listen(turn.world());
        let silent =
            |heard: &Moment| now.since(resumed_at.max(*heard)) >= policy.end_silent_jobs_after;
        let vanished = self.heard.iter().find(|(_, (heard, _))| silent(heard));
        match vanished {
            Some((job, _)) => turn.decide(Change::Registered {
                job: job.clone(),
                registration: None,
                by: Author::Policy,
            }),
            None => self.let_go(turn),
        }
    }

    /// Follows the log: a job that is no longer registered has ended.
    fn follow(&mut self, now: Moment, registered: &BTreeMap<String, Registered>) {
        for (job, report) in registered {
            let hosts: BTreeSet<_> = report.hosts.iter().copied().collect();
            let (_, known) = self
                .heard
                .entry(job.clone())
                .or_insert((now, hosts.clone()));
            *known = hosts;
        }
        let gone = |job: &String, _: &mut (Moment, BTreeSet<NodeId>)| !registered.contains_key(job);
        let over = self.heard.extract_if(.., gone);
        self.over.extend(over.map(|(_, (_, hosts))| hosts));
    }

    /// A session between hosts of a job that sends, or has sent much and is idle, shows that the job is active.
    fn listen(&mut self, world: &World<'_>) {
        let known = world.known;
        let jobs = known.resting.all_jobs(world);
        let flows: Vec<_> = jobs.iter().flat_map(|job| &job.flows).collect();
        for (heard, hosts) in self.heard.values_mut() {
            let is_inside = |from: &NodeId, to: &NodeId| hosts.contains(from) && hosts.contains(to);
            if flows.iter().any(|flow| is_inside(&flow.from, &flow.to)) {
                *heard = known.now;
            }
        }
    }

    /// Removes pins of flows that ended with their job, in manual mode too: the request that ended the job covers
    /// this.
    fn let_go(&mut self, turn: &mut DecisionContext<'_>) {
        let pins = &turn.state.in_force().pins;
        self.over
            .retain(|hosts| pins.iter().any(|pin| joins(turn.known, pin, hosts)));
        if turn.known.policy.opens_in(turn.known.now).is_some() {
            return;
        }
        let is_over = |pin: &Pin| self.over.iter().any(|it| joins(turn.known, pin, it));
        let pins: Vec<_> = pins.iter().filter(|pin| is_over(pin)).copied().collect();
        let Some(plan) = proposals::without_left_over(turn.world(), turn.state, &pins) else {
            return;
        };
        let claims = turn.claims(&plan);
        let mut others = turn.state.rollouts();
        let is_free = others.all(|it| it.claims.shared_with(&claims).is_none());
        drop(others);
        if is_free && first_step(turn, &plan).is_ok() {
            turn.carry_out(plan, Author::Policy);
        }
    }
}

/// Whether both ends of the pinned flow are among these hosts.
fn joins(known: Measurements<'_>, pin: &Pin, hosts: &BTreeSet<NodeId>) -> bool {
    let ends = [pin.flow.source, pin.flow.destination];
    let mut owners = ends.iter().map(|end| known.ingest.owner(*end.ip()));
    owners.all(|owner| owner.is_some_and(|owner| hosts.contains(&owner)))
}
