//! The receiving half of a stream's end.

use super::arrivals::Arrivals;
use super::inbox::{Inbox, WINDOW_BYTES};
use super::packet::Ack;

#[derive(Debug, Default)]
pub(super) struct Receiver {
    inbox: Inbox,
    arrivals: Arrivals,
    ack_due: bool,
    /// The packet that came last, if nothing was said since.
    unanswered: Option<u64>,
    /// The last limit that was sent to the sender.
    announced_limit: u64,
}

impl Receiver {
    pub(super) fn reordered(&self) -> u64 {
        self.arrivals.reordered()
    }

    pub(super) fn handle_data(&mut self, number: u64, position: u64, bytes: &[u8]) {
        self.inbox.accept(position, bytes);
        self.handle_probe(number);
    }

    pub(super) fn handle_probe(&mut self, number: u64) {
        self.arrivals.note(number);
        self.unanswered = Some(number);
        self.ack_due = true;
    }

    pub(super) fn owes_answer(&self) -> bool {
        self.ack_due
    }

    /// Asks for an acknowledgement though nothing has come.
    pub(super) fn speak(&mut self) {
        self.ack_due = true;
    }

    /// A sender that was asked to stop must hear when there is room again.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> usize {
        let length = self.inbox.read(buffer);
        self.ack_due |= self.inbox.limit() >= self.announced_limit + WINDOW_BYTES / 2;
        length
    }

    pub(super) fn poll_transmit(&mut self, datagram: &mut Vec<u8>) -> bool {
        if !std::mem::take(&mut self.ack_due) {
            return false;
        }
        self.announced_limit = self.inbox.limit();
        let ack = Ack {
            answers: self.unanswered.take(),
            arrived_to: self.inbox.arrived_to(),
            limit: self.announced_limit,
            missing: self.arrivals.missing(),
            numbers: self.arrivals.latest(),
        };
        ack.encode(datagram);
        true
    }
}
