//! One end of a stream in both directions, without a socket or a clock: both are arguments.

use std::time::Duration;

use super::inbox::WINDOW_BYTES;
use super::packet::Packet;
use super::receiver::Receiver;
use super::sender::Sender;
use super::window::Path;
use crate::worker::flow::Statistics;

/// Interval of keepalives, to which the kernel of a dead peer responds with an error.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
/// Number of greetings: one answer may be late by chance; the fastest of several shows the delay of the empty path.
const GREETING_COUNT: u32 = 4;

/// The end that speaks first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Opens,
    Awaits,
}

#[derive(Debug)]
pub(super) struct Endpoint {
    sender: Sender,
    receiver: Receiver,
    /// When it last sent anything.
    spoke: Duration,
}

impl Endpoint {
    pub(super) fn new(role: Role, path: Path, now: Duration) -> Self {
        let greetings = match role {
            Role::Opens => GREETING_COUNT,
            Role::Awaits => 0,
        };
        Self {
            sender: Sender::new(path, WINDOW_BYTES, greetings),
            receiver: Receiver::default(),
            spoke: now,
        }
    }

    /// Whether the peer has answered, so that bytes can follow.
    pub(super) fn is_open(&self) -> bool {
        self.sender.is_greeted()
    }

    /// Whether all that was written has arrived.
    #[cfg(test)]
    pub(super) fn all_arrived(&self) -> bool {
        self.sender.all_arrived()
    }

    /// Whether the peer counts as gone.
    pub(super) fn is_forsaken(&self, now: Duration) -> bool {
        self.sender.is_forsaken(now)
    }

    pub(super) fn statistics(&self) -> Statistics {
        Statistics {
            retransmits: Some(self.sender.retransmits()),
            lost: Some(self.sender.lost()),
            reordered: Some(self.receiver.reordered()),
            rtt_us: self.sender.rtt().map(|rtt| rtt.as_micros() as u64),
        }
    }

    /// Takes as many of `bytes` as there is room for.
    pub(super) fn write(&mut self, bytes: &[u8]) -> usize {
        self.sender.write(bytes)
    }

    /// Reads received bytes into `buffer`, as many as fit.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> usize {
        self.receiver.read(buffer)
    }

    /// Whether there is something to say at once about what was received or read.
    pub(super) fn owes_answer(&self) -> bool {
        self.receiver.owes_answer()
    }

    pub(super) fn set_datagram_bytes(&mut self, bytes: usize) {
        self.sender.set_datagram_bytes(bytes);
    }

    pub(super) fn handle_datagram(&mut self, now: Duration, datagram: &[u8]) {
        let Some(packet) = Packet::decode(datagram) else {
            return;
        };
        self.sender.handle_sign_of_life(now);
        match packet {
            Packet::Data {
                number,
                position,
                bytes,
            } => self.receiver.handle_data(number, position, bytes),
            Packet::Probe { number } => self.receiver.handle_probe(number),
            Packet::Ack(ack) => self.sender.handle_ack(now, &ack),
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Duration) {
        self.sender.handle_timeout(now);
        if now >= self.spoke + KEEPALIVE_INTERVAL {
            self.receiver.speak();
        }
    }

    /// When to call [`Self::handle_timeout`] at the latest.
    pub(super) fn poll_timeout(&self) -> Duration {
        let silence = self.spoke + KEEPALIVE_INTERVAL;
        self.sender
            .poll_timeout()
            .map_or(silence, |timeout| timeout.min(silence))
    }

    /// Writes the next datagram, if there is one to send now.
    pub(super) fn poll_transmit(&mut self, now: Duration, datagram: &mut Vec<u8>) -> bool {
        let transmits =
            self.receiver.poll_transmit(datagram) || self.sender.poll_transmit(now, datagram);
        if transmits {
            self.spoke = now;
        }
        transmits
    }
}
