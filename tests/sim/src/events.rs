//! All events, and their handlers.

use reweave_agent_core::probe::TraceAnswer;
use reweave_common::ids::NodeId;
use reweave_common::instruction::Instruction;

use super::actor::Report;
use super::coordinator::Guest;
use super::faults::Fault;
use super::leaders::Leaders;
use super::wire::SessionId;
use super::{TICK_INTERVAL, WANDER_INTERVAL, World};

#[derive(Debug, Clone)]
pub enum Event {
    /// Time passes for the coordinator.
    Tick,
    /// The coordinator restarts.
    Lead,
    StartAgent {
        node: NodeId,
    },
    Dial {
        node: NodeId,
        life: u64,
    },
    /// The agent's end of a session is gone.
    Lost {
        node: NodeId,
        session: SessionId,
    },
    /// The coordinator notices that a session is gone.
    Left {
        node: NodeId,
        session: SessionId,
    },
    Report {
        node: NodeId,
        life: u64,
    },
    News {
        node: NodeId,
        life: u64,
    },
    Probe {
        node: NodeId,
        life: u64,
    },
    Answer {
        node: NodeId,
        life: u64,
        answer: TraceAnswer,
    },
    /// Without a session it is from a former leader.
    Instructed {
        node: NodeId,
        session: Option<SessionId>,
        instruction: Instruction,
    },
    Heard {
        session: SessionId,
        report: Report,
    },
    /// A flow has sent all it had, or a rank has computed.
    Traffic {
        turn: u64,
    },
    Wander,
    Fault(Fault),
}

impl<L: Leaders> World<L> {
    pub(super) fn live(&mut self, event: Event) {
        let now = self.now();
        match event {
            Event::Tick => {
                self.schedule.after(TICK_INTERVAL, Event::Tick);
                let outputs = self.coordinator.tick(now);
                self.carry_all_out(outputs);
            }
            Event::Lead => self.lead(),
            Event::StartAgent { node } => self.start_agent(node),
            Event::Dial { node, life } => self.dial(node, life),
            Event::Lost { node, session } => self.lose(node, session),
            Event::Left { node, session } => {
                let outputs = self.coordinator.left(now, Guest::Agent(node), session);
                self.carry_all_out(outputs);
            }
            Event::Report { node, life } => self.report(node, life),
            Event::News { node, life } => self.send_news(node, life),
            Event::Probe { node, life } => self.probe(node, life),
            Event::Answer { node, life, answer } => self.hear_answer(node, life, &answer),
            Event::Instructed {
                node,
                session: Some(session),
                instruction,
            } => self.instruct(node, session, instruction),
            Event::Instructed {
                node, instruction, ..
            } => {
                self.note(format!("{} hears an old instruction", self.name(node)));
                self.install(node, &instruction);
            }
            Event::Heard { session, report } => {
                let outputs = self.coordinator.report(now, session, report);
                self.carry_all_out(outputs);
            }
            Event::Traffic { turn } if turn == self.turn => self.flow_on(),
            Event::Traffic { .. } => {}
            Event::Wander => {
                self.schedule.after(WANDER_INTERVAL, Event::Wander);
                self.network.advance(now);
                self.network.wander(&mut self.chance);
                self.traffic_changed();
            }
            Event::Fault(fault) => self.strike(fault),
        }
    }
}
