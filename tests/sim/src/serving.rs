//! Agents in their world: they live and die, have sessions, report, probe and get instructions.

use std::time::Duration;

use reweave_agent_core::probe::TraceAnswer;
use reweave_common::ids::NodeId;
use reweave_common::instruction::Instruction;
use reweave_common::sample::Sample;

use super::actor::Report;
use super::agent::{Agent, Died};
use super::coordinator::Guest;
use super::events::Event;
use super::leaders::Leaders;
use super::wire::SessionId;
use super::{NEWS_INTERVAL, World};

impl<L: Leaders> World<L> {
    pub(super) fn agent(&mut self, node: NodeId) -> &mut Agent {
        self.agents.get_mut(&node).expect("every node has an agent")
    }

    pub(super) fn start_agent(&mut self, node: NodeId) {
        if self.agent(node).is_running() {
            return;
        }
        self.note(format!("the agent of {} starts", self.name(node)));
        self.network.advance(self.schedule.now());
        let agent = self.agents.get_mut(&node).expect("every node has an agent");
        agent.start(&mut self.chance, &mut self.network, &mut self.laws);
        let life = agent.life();
        let is_running = agent.is_running();
        self.reroute();
        if !is_running {
            return self.mourn_agent(node);
        }
        self.schedule
            .after(Duration::ZERO, Event::Dial { node, life });
        let next = self.delays.reports;
        self.schedule.after(next, Event::Report { node, life });
    }

    /// Schedules the restart of an agent; the coordinator notices its absence.
    pub(super) fn mourn_agent(&mut self, node: NodeId) {
        self.note(format!("the agent of {} dies", self.name(node)));
        let back = self.a_while();
        self.schedule.after(back, Event::StartAgent { node });
    }

    pub(super) fn kill_agent(&mut self, node: NodeId) {
        let session = self.agent(node).session();
        self.agent(node).die();
        self.bury_session(node, session);
        self.mourn_agent(node);
    }

    pub(super) fn bury_session(&mut self, node: NodeId, session: Option<SessionId>) {
        if let Some(session) = session {
            let noticed = self.notices();
            self.schedule.after(noticed, Event::Left { node, session });
        }
    }

    pub(super) fn dial(&mut self, node: NodeId, life: u64) {
        let agent = self.agent(node);
        if agent.life() != life || agent.session().is_some() {
            return;
        }
        if !self.coordinator.is_there() {
            let again = self.a_while();
            self.schedule.after(again, Event::Dial { node, life });
            return;
        }
        let (now, session) = (self.now(), self.wire.new_session());
        self.note(format!("{} has session {}", self.name(node), session.0));
        self.agent(node).handle_connected(session);
        let outputs = self.coordinator.seat(now, Guest::Agent(node), session);
        self.carry_all_out(outputs);
        // A new agent there knows nothing yet.
        self.send_all(node);
    }

    pub(super) fn lose(&mut self, node: NodeId, session: SessionId) {
        let now = self.now();
        let agent = self.agent(node);
        if agent.session() != Some(session) {
            return;
        }
        agent.handle_lost(now);
        let life = agent.life();
        self.note(format!("{} loses session {}", self.name(node), session.0));
        self.bury_session(node, Some(session));
        let again = self.a_while();
        self.schedule.after(again, Event::Dial { node, life });
    }

    pub(super) fn report(&mut self, node: NodeId, life: u64) {
        if self.agent(node).life() == life {
            let next = self.delays.reports;
            self.schedule.after(next, Event::Report { node, life });
            self.send_all(node);
        }
    }

    pub(super) fn send_all(&mut self, node: NodeId) {
        let now = self.now();
        self.network.advance(now);
        let agent = self.agents.get_mut(&node).expect("every node has an agent");
        let session = agent.session();
        let sample = agent.sample(now, &mut self.network, &mut self.laws);
        self.reroute();
        match sample {
            Ok(sample) => self.send_sample(node, session, sample),
            Err(Died) => {
                self.bury_session(node, session);
                self.mourn_agent(node);
            }
        }
        self.plan_probes(node);
    }

    pub(super) fn send_sample(
        &mut self,
        node: NodeId,
        session: Option<SessionId>,
        sample: Option<Sample>,
    ) {
        if let Some(sample) = sample {
            self.say(session, &Report::Sample(node, sample));
        }
    }

    fn say(&mut self, session: Option<SessionId>, report: &Report) {
        let Some(session) = session else { return };
        let now = self.now();
        for at in self.wire.arrivals(now, session, report.channel()) {
            let report = report.clone();
            self.schedule.at(at, Event::Heard { session, report });
        }
    }

    pub(super) fn send_news(&mut self, node: NodeId, life: u64) {
        let now = self.now();
        let agent = self.agent(node);
        if agent.life() == life {
            let (session, news) = (agent.session(), agent.poll_news(now));
            self.send_sample(node, session, news);
        }
    }

    pub(super) fn probe(&mut self, node: NodeId, life: u64) {
        let now = self.now();
        if self.agent(node).life() != life || self.probes_due.get(&node) != Some(&now) {
            return;
        }
        self.probes_due.remove(&node);
        for probe in self.agent(node).probes(now) {
            let answer = self.network.answer(node, &probe);
            let answer =
                answer.and_then(|(least, answer)| Some((self.wire.probe_time(least)?, answer)));
            if let Some((after, answer)) = answer {
                self.schedule
                    .after(after, Event::Answer { node, life, answer });
            }
        }
        self.plan_probes(node);
    }

    pub(super) fn hear_answer(&mut self, node: NodeId, life: u64, answer: &TraceAnswer) {
        let now = self.now();
        if self.agent(node).life() == life {
            self.agent(node).handle_answer(now, answer);
            self.plan_probes(node);
        }
    }

    /// Sees to it that the agent is called when it has to probe.
    pub(super) fn plan_probes(&mut self, node: NodeId) {
        let now = self.now();
        let agent = self.agent(node);
        let (life, due) = (agent.life(), agent.next_probe());
        if agent.has_news() {
            self.schedule
                .after(NEWS_INTERVAL, Event::News { node, life });
        }
        let Some(due) = due else { return };
        let due = due.max(now + Duration::from_micros(1));
        let planned = self.probes_due.get(&node).filter(|planned| **planned > now);
        if planned.is_none_or(|&planned| due < planned) {
            self.probes_due.insert(node, due);
            self.schedule.at(due, Event::Probe { node, life });
        }
    }

    pub(super) fn instruct(&mut self, node: NodeId, session: SessionId, instruction: Instruction) {
        let now = self.now();
        if self.agent(node).session() != Some(session) {
            return;
        }
        match instruction {
            Instruction::Watch(watch) => {
                self.agent(node).watch(now, &watch);
                self.plan_probes(node);
            }
            report @ (Instruction::Install(_) | Instruction::Unconfirmed(_)) => {
                self.install(node, &report);
            }
            // Reports come often enough.
            Instruction::Closely(_) => {}
            // Probes between hosts do not influence decisions, so they are not simulated.
            Instruction::Probe(_) => {}
        }
    }

    pub(super) fn install(&mut self, node: NodeId, instruction: &Instruction) {
        let Some(install) = instruction.install() else {
            return;
        };
        let (generation, rules) = (install.generation, install.holding.rules.len());
        self.network.advance(self.schedule.now());
        let agent = self.agents.get_mut(&node).expect("every node has an agent");
        let session = agent.session();
        let acks = agent.install(instruction, &mut self.network, &mut self.laws);
        self.reroute();
        let name = self.name(node);
        let outcomes = acks
            .as_ref()
            .map(|acks| acks.iter().map(|ack| ack.outcome.is_ok()));
        let outcomes: Vec<_> = outcomes.into_iter().flatten().collect();
        let line = format!("{name} gets generation {generation} with {rules} rules: {outcomes:?}");
        self.note(line);
        match acks {
            Ok(acks) => acks
                .into_iter()
                .for_each(|ack| self.say(session, &Report::Ack(node, ack))),
            Err(Died) => {
                self.bury_session(node, session);
                self.mourn_agent(node);
            }
        }
    }
}
