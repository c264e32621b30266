//! Traffic in the simulation: advances with time, and schedules its next events.

use std::time::Duration;

use reweave_common::flow::FlowKey;

use super::World;
use super::events::Event;
use super::leaders::Leaders;

impl<L: Leaders> World<L> {
    pub(super) fn flow_on(&mut self) {
        self.network.advance(self.schedule.now());
        self.traffic_changed();
    }

    /// After a switch may have changed its pins.
    pub(super) fn reroute(&mut self) {
        if self.network.take_rerouted() {
            self.traffic_changed();
        }
    }

    /// Ranks go on, rates settle, and the next thing to happen is put on the schedule.
    pub(super) fn traffic_changed(&mut self) {
        let now = self.now();
        self.jobs.advance(now, &mut self.network);
        self.network.settle();
        self.laws.look_at_ways(&self.network);
        self.turn += 1;
        let wakes = [self.network.next_idle(), self.jobs.next_wake()];
        if let Some(next) = wakes.into_iter().flatten().min() {
            let next = next.max(now + Duration::from_micros(1));
            let turn = self.turn;
            self.schedule.at(next, Event::Traffic { turn });
        }
    }

    /// Bytes that have arrived so far.
    pub fn arrived_bytes(&mut self, flow: &FlowKey) -> f64 {
        self.network.advance(self.schedule.now());
        self.network.acked_bytes(flow)
    }
}
