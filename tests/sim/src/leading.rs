//! The coordinator in its simulation: it dies and restarts, and its outputs are delivered.

use std::time::Duration;

use super::World;
use super::coordinator::Output;
use super::events::Event;
use super::leaders::Leaders;

impl<L: Leaders> World<L> {
    pub(super) fn lead(&mut self) {
        if !self.coordinator.is_there() {
            self.note("the coordinator restarts".to_owned());
            self.coordinator.come_back();
        }
    }

    /// Schedules the restart of the coordinator; its sessions are lost, which agents notice one by one.
    pub(super) fn mourn_coordinator(&mut self) {
        self.note("the coordinator dies".to_owned());
        let back = self.a_while();
        self.schedule.after(back, Event::Lead);
        let sessions: Vec<_> = self
            .agents
            .values()
            .filter_map(|agent| Some((agent.node, agent.session()?)))
            .collect();
        for (node, session) in sessions {
            let noticed = self.notices();
            self.schedule.after(noticed, Event::Lost { node, session });
        }
    }

    /// Returns the time until the other end of a lost session notices.
    pub(super) fn notices(&mut self) -> Duration {
        self.wire.a_while(self.delays.idle)
    }

    pub(super) fn carry_all_out(&mut self, outputs: Vec<Output>) {
        outputs
            .into_iter()
            .for_each(|output| self.carry_out(output));
    }

    pub(super) fn carry_out(&mut self, output: Output) {
        let now = self.now();
        match output {
            Output::Reply { .. } => {}
            Output::Died => self.mourn_coordinator(),
            Output::Ended { node, session } => {
                let noticed = self.notices();
                self.schedule.after(noticed, Event::Lost { node, session });
            }
            // Fabrics of this simulation have no optical switches.
            Output::Switch { .. } => {}
            Output::Send {
                to,
                node,
                instruction,
            } => {
                let installs = instruction.install().is_some();
                for (at, session) in self.wire.orders(now, to, installs) {
                    let instruction = instruction.clone();
                    let event = Event::Instructed {
                        node,
                        session,
                        instruction,
                    };
                    self.schedule.at(at, event);
                }
            }
        }
    }
}
