//! Messages between coordinators in flight. Short ones are sent separately, and may be lost, repeated or delayed. Large
//! ones are sent in parts over a connection.

use std::time::Duration;

use reweave_replica::{MemberId, Message};

use super::{Cluster, Event, NETWORK_DELAYS};
use crate::replicas::lines::{Lane, Line};
use crate::replicas::node::direction;

impl Cluster {
    pub(super) fn post(&mut self, message: Message) {
        let line = direction(&message);
        if !self.has_way(line) {
            return;
        }
        if self.cut.contains(&line) {
            return self.lines.lose(line);
        }
        if self.lines.is_long(&message) {
            return self.post_in_parts(message);
        }
        if self.chance.happens(self.weather.lost) {
            return;
        }
        let copies = 1 + usize::from(self.chance.happens(self.weather.repeated));
        for _ in 0..copies {
            let delay = self.delay();
            let message = Box::new(message.clone());
            self.schedule.after(delay, Event::Message(message));
        }
    }

    /// There are connections to members, and to those to come. Newcomers begin here without knowing any.
    fn has_way(&self, (from, to): Line) -> bool {
        let running = self.nodes.get(&from).and_then(|node| node.running.as_ref());
        running.is_some_and(|it| {
            let (known, to) = (&it.replica().members().of, MemberId(to));
            known.is_empty() || known.contains_key(&to) || it.pending_members.contains(&to)
        })
    }

    fn delay(&mut self) -> Duration {
        let late = self.chance.happens(self.weather.late);
        let most = if late {
            self.weather.late_by
        } else {
            NETWORK_DELAYS[1]
        };
        self.chance
            .time(NETWORK_DELAYS[0], most.max(NETWORK_DELAYS[0]))
    }

    /// A loss takes the connection with it. A coordinator that does not run has none.
    fn post_in_parts(&mut self, message: Message) {
        let (_, to) = direction(&message);
        let there = self.nodes.get(&to).and_then(|node| node.running.as_ref());
        if there.is_none() || self.lines.stream(&message).1.is_broken() {
            return;
        }
        let mut parts = self.lines.cut(&message);
        let count = parts.len();
        parts.truncate(self.parts_before_loss(&message, count));
        let is_whole = parts.len() == count;
        // Something else may come between the first and the rest.
        let first = self.chance.below(count).min(parts.len());
        let rest = parts.split_off(first);
        for flight in [parts, rest] {
            if flight.is_empty() {
                continue;
            }
            let due = self.now() + self.delay();
            let (lane, stream) = self.lines.stream(&message);
            let due = stream.push_parts(flight, due);
            self.schedule.at(due, Event::Parts(lane));
        }
        let (lane, stream) = self.lines.stream(&message);
        if is_whole {
            return stream.push_whole(message);
        }
        let last = stream.break_off().max(self.schedule.now());
        let later = self.chance.time(NETWORK_DELAYS[0], NETWORK_DELAYS[1]);
        let Lane {
            line, connection, ..
        } = lane;
        let hung_up = Event::HungUp { line, connection };
        self.schedule.at(last + later, hung_up);
    }

    /// Returns the number of parts that arrive: all, unless the connection is lost within this message.
    fn parts_before_loss(&mut self, message: &Message, count: usize) -> usize {
        let is_lost = self.chance.happens(self.weather.lost);
        let lost_after = is_lost.then(|| self.chance.below(count));
        if message.is_large()
            && let Some(after) = self.lines.lose_snapshot_after.take()
        {
            assert!(after < count, "a snapshot of {count} parts");
            return after;
        }
        lost_after.unwrap_or(count)
    }

    pub(super) fn parts_come(&mut self, lane: Lane) {
        if self.cut.contains(&lane.line) {
            return self.lines.lose(lane.line);
        }
        if let Some(message) = self.lines.arrive(lane) {
            self.deliver(message);
        }
    }

    /// Closes a connection. As in the product, the sender's replica is notified.
    pub(super) fn hang_up(&mut self, line: Line, connection: u64) {
        if !self.lines.holds(line, connection) {
            return;
        }
        self.lines.lose(line);
        let (from, to) = line;
        if let Some(running) = self.alive(from) {
            running.replica_mut().handle_unreachable(MemberId(to));
            self.carry_out(from);
        }
    }
}
