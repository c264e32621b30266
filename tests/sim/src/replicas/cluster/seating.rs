//! Agents and their sessions with the leader, or one that thinks so.

use std::collections::BTreeMap;
use std::time::Duration;

use reweave_common::ids::NodeId;
use reweave_common::moment::Moment;
use reweave_core::{Command, Input, State};

use super::{Cluster, Event};
use crate::actor::Report;
use crate::coordinator::{Guest, Output};
use crate::leaders::Leaders;
use crate::replicas::node::Node;
use crate::wire::SessionId;

/// A former leader restarts after this time.
const LEADER_DOWNTIMES: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(400)];

impl Cluster {
    pub(super) fn take_seat(&mut self, to: u64, node: NodeId, session: SessionId) {
        let Some(running) = self.alive(to).filter(|running| running.office.leads()) else {
            return self.outputs.push(Output::Ended { node, session });
        };
        let before = running.seats.get(&node).copied();
        if before.is_some_and(|before| before > session) {
            return;
        }
        if let Some(before) = before {
            self.leave_seat(to, node, before);
        }
        if let Some(running) = self.alive(to) {
            running.seats.insert(node, session);
        }
        self.hear(to, Some(session), Input::AgentUp { node });
    }

    pub(super) fn leave_seat(&mut self, to: u64, node: NodeId, session: SessionId) {
        let Some(running) = self.alive(to) else {
            return;
        };
        if running.seats.get(&node) == Some(&session) {
            running.seats.remove(&node);
            self.hear(to, None, Input::AgentDown { node });
        }
    }

    /// Delivers an input. One by a session that is not open is ignored.
    pub(super) fn hear(&mut self, to: u64, session: Option<SessionId>, input: Input) {
        let now = self.now();
        let Some(running) = self.alive(to) else {
            return;
        };
        let is_seated = |session| running.seats.values().any(|&held| held == session);
        if session.is_none_or(is_seated) {
            let at = running.clock(now);
            running.office.handle(at, input);
            self.drive(to);
            self.carry_out(to);
        }
    }

    pub(super) fn end_sessions(&mut self, seats: BTreeMap<NodeId, SessionId>) {
        let ended = seats.into_iter();
        let ended = ended.map(|(node, session)| Output::Ended { node, session });
        self.outputs.extend(ended);
    }

    /// Returns all coordinators that lead or believe that they do.
    pub(super) fn leaders(&self) -> Vec<u64> {
        let leads = |(&id, node): (&u64, &Node)| {
            let running = node.running.as_ref()?;
            running.office.leads().then_some(id)
        };
        self.nodes.iter().filter_map(leads).collect()
    }

    fn put(&mut self, at: Moment, event: Event) -> Vec<Output> {
        self.schedule.at(at, event);
        Vec::new()
    }
}

fn node_of(guest: Guest) -> NodeId {
    match guest {
        Guest::Agent(node) => node,
        Guest::Driver(_) => panic!("this fabric has no optical switches"),
    }
}

/// Inputs for a coordinator wait like any other event while it is stopped.
impl Leaders for Cluster {
    fn next_due(&self) -> Option<Moment> {
        self.schedule.next_due()
    }

    fn go_on(&mut self) -> Vec<Output> {
        self.step();
        std::mem::take(&mut self.outputs)
    }

    fn decided(&self) -> (&[Command], Option<&State>) {
        (self.agreed.commands(), Some(self.agreed.state()))
    }

    fn is_there(&self) -> bool {
        !self.leaders().is_empty()
    }

    fn die(&mut self) -> Vec<Output> {
        if let Some(leader) = self.leader() {
            let away = self.chance.time(LEADER_DOWNTIMES[0], LEADER_DOWNTIMES[1]);
            self.kill(leader, away);
        }
        std::mem::take(&mut self.outputs)
    }

    fn come_back(&mut self) {}

    fn tick(&mut self, now: Moment) -> Vec<Output> {
        for to in self.leaders() {
            let (session, input) = (None, Box::new(Input::Tick));
            self.put(now, Event::Input { to, session, input });
        }
        Vec::new()
    }

    /// Opens a session with a coordinator that leads or believes that it does.
    fn seat(&mut self, now: Moment, guest: Guest, session: SessionId) -> Vec<Output> {
        let (node, leaders) = (node_of(guest), self.leaders());
        let to = *self.chance.one_of(&leaders);
        self.places.insert(session, to);
        self.put(now, Event::Seat { to, node, session })
    }

    fn left(&mut self, now: Moment, guest: Guest, session: SessionId) -> Vec<Output> {
        let Some(to) = self.places.remove(&session) else {
            return Vec::new();
        };
        let node = node_of(guest);
        self.put(now, Event::Unseat { to, node, session })
    }

    fn report(&mut self, now: Moment, session: SessionId, report: Report) -> Vec<Output> {
        let Some(&to) = self.places.get(&session) else {
            return Vec::new();
        };
        let (session, input) = (Some(session), Box::new(report.input()));
        self.put(now, Event::Input { to, session, input })
    }
}
