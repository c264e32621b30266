//! Coordinators come to lead and cease to, and do what their core decides meanwhile: as the loop of the
//! product does it, with the same office between the log and the core.

use std::mem;

use reweave_common::ids::NodeId;
use reweave_common::instruction::Instruction;
use reweave_common::operator::{Refused, Response};
use reweave_core::{Command, Effect, NoEntry, Pass, State};
use reweave_replica::{ReadId, RequestId};

use super::{Cluster, Event, NETWORK_DELAYS};
use crate::coordinator::Output;
use crate::replicas::machine::Payload;
use crate::replicas::node::{Plea, Running};
use crate::replicas::people::{Matter, Word};

/// A client that hears that asks the others.
pub(super) const NOT_LEADING: Response = Response::Refused(Refused::NotLeading { leader: None });

impl Cluster {
    pub(super) fn lead(&mut self, id: u64, term: u64) {
        let now = self.now();
        let today = self.nodes[&id].time_of_day(now);
        self.running(id).begin_to_lead(term, today, now);
        if let Some(running) = &self.nodes[&id].running {
            self.laws.leads(id, term, &running.machine);
            self.agreed.leads(id, term, running.office.state());
            self.inherited += u64::from(is_under_way(running.office.state()));
        }
        self.drive(id);
    }

    /// Agents find the new leader, and so do operators; new members hear nothing.
    pub(super) fn step_down(&mut self, id: u64) {
        let running = self.running(id);
        running.office.handle_deposed(&NOT_LEADING);
        let seats = mem::take(&mut running.seats);
        self.end_sessions(seats);
        self.drive(id);
        self.running(id).people.clear();
    }

    /// Carries out what the core has decided, in order.
    pub(super) fn drive(&mut self, id: u64) {
        while let Some(effect) = self.alive(id).and_then(|it| it.office.poll_effect()) {
            self.carry_out_decided(id, effect);
        }
        while let Some((ask, response)) = self.alive(id).and_then(|it| it.office.poll_answer()) {
            self.respond(id, ask, response);
        }
    }

    pub(super) fn alive(&mut self, id: u64) -> Option<&mut Running> {
        self.nodes.get_mut(&id)?.running.as_mut()
    }

    fn carry_out_decided(&mut self, id: u64, effect: Effect) {
        match effect {
            Effect::Append(command) => self.propose(id, &command),
            Effect::Send { node, instruction } => self.instruct(id, node, instruction),
            Effect::Reply { id: ask, response } => {
                let running = self.running(id);
                if running.office.handle_answer(ask, response) {
                    seek(running, ask);
                }
            }
            Effect::Answer { id: knock, pass } => self.let_in(id, knock, pass),
            // The fabric has no optical switches.
            Effect::Switch { .. } => {}
        }
    }

    /// Proposes a command. It is applied later, or this coordinator loses leadership.
    fn propose(&mut self, id: u64, command: &Command) {
        let running = self.running(id);
        let Some(number) = running.office.name_proposal() else {
            return;
        };
        let payload = Payload::Decided(command.encode().expect("it can be written"));
        let payload = postcard::to_stdvec(&payload).expect("it can be written");
        let request = RequestId { client: id, number };
        let _ = running.replica_mut().propose(request, payload);
    }

    fn instruct(&mut self, id: u64, node: NodeId, instruction: Instruction) {
        if let Some(install) = instruction.install() {
            self.agreed.instructs(node, install);
        }
        if let Some(&to) = self.running(id).seats.get(&node) {
            self.outputs.push(Output::Send {
                to,
                node,
                instruction,
            });
        }
    }

    fn respond(&mut self, id: u64, ask: u64, response: Response) {
        let Some(plea) = self.running(id).people.remove(&ask) else {
            return;
        };
        let node = &self.nodes[&id];
        if let (Some(term), Some(running), Matter::Ask(request)) =
            (node.leads(), &node.running, &plea.matter)
            && response != NOT_LEADING
        {
            let state = running.office.state();
            self.agreed
                .answers(term, state, plea.promised, request, &response);
        }
        self.tell(&plea, Word::Response(Box::new(response)));
    }

    fn let_in(&mut self, id: u64, knock: u64, pass: Result<Pass, NoEntry>) {
        let Some(plea) = self.running(id).people.remove(&knock) else {
            return;
        };
        let node = &self.nodes[&id];
        if let (Some(term), Some(running), Matter::Knock(by), Ok(pass)) =
            (node.leads(), &node.running, &plea.matter, &pass)
        {
            let state = running.office.state();
            self.agreed.lets_in(term, state, *by, pass);
        }
        self.tell(&plea, Word::Entry(pass));
    }

    pub(super) fn tell(&mut self, plea: &Plea, word: Word) {
        let (person, attempt) = (plea.person, plea.attempt);
        let event = Event::Replied {
            person,
            attempt,
            word,
        };
        self.after(NETWORK_DELAYS, event);
    }
}

/// Whether switches have instructions of unknown outcome.
fn is_under_way(state: &State) -> bool {
    let rollout = state.rollouts().next();
    rollout.is_some_and(|rollout| rollout.phase.migration().is_some())
}

/// Has the others asked whether another leads.
pub(super) fn seek(running: &mut Running, ask: u64) {
    if running.replica_mut().read(ReadId(ask)).is_err() {
        running.office.handle_uncertain(ask, NOT_LEADING);
    }
}
