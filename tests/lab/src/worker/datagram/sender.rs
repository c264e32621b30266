//! The sending half of a stream's end.

use std::ops::Range;
use std::time::Duration;

use super::flight::{Flight, Transmission};
use super::outbox::Outbox;
use super::packet::{self, Ack, DATA_HEADER_BYTES};
use super::rtt::Rtt;
use super::window::{Path, Window};

/// Maximum silence of a peer with outstanding data, as a NIC allows with NCCL's settings: 4.096 us x 2^20 for each of 7
/// retries.
const PEER_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Sender {
    outbox: Outbox,
    flight: Flight,
    rtt: Rtt,
    window: Window,
    /// The largest datagram that the path takes.
    datagram_bytes: usize,
    /// Number of probes to be answered before anything else is sent. They have the maximum size, so they show that the
    /// path carries such packets, and their delay on an empty path.
    greetings: u32,
    /// A probe to be sent next, of this size.
    probe_bytes: Option<usize>,
    /// When an answer was last asked for, and how often without an answer.
    asked: Duration,
    times_asked: u32,
    /// Since when nothing was heard though something is outstanding.
    silent_since: Duration,
    retransmits: u64,
    missing: Missing,
}

/// Number of missing packets, from the receiver's last report.
#[derive(Debug, Default)]
struct Missing {
    before: u64,
    count: u64,
}

impl Sender {
    pub(super) fn new(path: Path, limit: u64, greetings: u32) -> Self {
        let datagram_bytes = path.datagram_bytes;
        Self {
            outbox: Outbox::new(limit),
            flight: Flight::default(),
            rtt: Rtt::default(),
            window: Window::new(path),
            datagram_bytes,
            greetings,
            probe_bytes: (greetings > 0).then_some(datagram_bytes),
            asked: Duration::ZERO,
            times_asked: 0,
            silent_since: Duration::ZERO,
            retransmits: 0,
            missing: Missing::default(),
        }
    }

    pub(super) fn is_greeted(&self) -> bool {
        self.greetings == 0
    }

    #[cfg(test)]
    pub(super) fn all_arrived(&self) -> bool {
        self.outbox.all_arrived()
    }

    pub(super) fn retransmits(&self) -> u64 {
        self.retransmits
    }

    pub(super) fn lost(&self) -> u64 {
        self.missing.count
    }

    pub(super) fn rtt(&self) -> Option<Duration> {
        self.rtt.mean()
    }

    /// Whether the peer has been silent for so many seconds that it counts as gone.
    pub(super) fn is_forsaken(&self, now: Duration) -> bool {
        self.is_waiting() && now >= self.silent_since + PEER_TIMEOUT
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> usize {
        self.outbox.write(bytes)
    }

    pub(super) fn set_datagram_bytes(&mut self, bytes: usize) {
        self.datagram_bytes = bytes;
        self.window.set_packet(bytes);
    }

    pub(super) fn handle_sign_of_life(&mut self, now: Duration) {
        self.silent_since = now;
    }

    pub(super) fn handle_ack(&mut self, now: Duration, ack: &Ack) {
        let landed = self.flight.land(&ack.numbers);
        for (_, transmission) in &landed {
            self.outbox.note_arrived(transmission.carries.clone());
        }
        self.outbox.note_arrived(0..ack.arrived_to);
        let more_allowed = self.outbox.raise_limit(ack.limit);
        self.missing.note(ack);
        let answered = |(number, _): &&(u64, Transmission)| Some(*number) == ack.answers;
        if let Some((_, answered)) = landed.iter().find(answered) {
            self.measure(now, answered);
        }
        if let Some((latest, _)) = landed.last() {
            let bytes = landed.iter().map(|(_, landed)| landed.bytes).sum();
            self.window
                .note_arrived(now, bytes, *latest, self.flight.next_number());
            self.greet_on();
        }
        let brought = |(_, landed): &(u64, Transmission)| !landed.carries.is_empty();
        if more_allowed || landed.iter().any(brought) {
            self.times_asked = 0;
        }
        self.give_up(now);
    }

    fn measure(&mut self, now: Duration, answered: &Transmission) {
        let rtt = now.saturating_sub(answered.sent);
        self.rtt.note(rtt);
        if answered.bytes >= self.datagram_bytes {
            self.window.note_rtt(now, rtt);
        }
    }

    fn greet_on(&mut self) {
        self.greetings = self.greetings.saturating_sub(1);
        if self.greetings > 0 {
            self.probe_bytes = Some(self.datagram_bytes);
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Duration) {
        self.give_up(now);
        if self.asks_at().is_some_and(|at| at <= now) {
            let greeting = self.datagram_bytes * usize::from(self.greetings > 0);
            self.probe_bytes = Some(greeting);
            self.times_asked += 1;
        }
    }

    fn give_up(&mut self, now: Duration) {
        for lost in self.flight.give_up(now, self.rtt.patience()) {
            self.outbox.note_lost(&lost.carries);
            self.window.note_loss(now, lost.sent);
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Duration> {
        let gives_up_at = self.flight.gives_up_at(self.rtt.patience());
        gives_up_at.into_iter().chain(self.asks_at()).min()
    }

    /// When to ask for an answer, because none has come.
    fn asks_at(&self) -> Option<Duration> {
        let due = self.is_waiting() && self.probe_bytes.is_none();
        due.then(|| self.asked + self.rtt.wait(self.times_asked))
    }

    fn is_waiting(&self) -> bool {
        !(self.flight.is_empty() && self.outbox.all_arrived())
    }

    /// The next datagram, if there is one to send now.
    pub(super) fn poll_transmit(&mut self, now: Duration, datagram: &mut Vec<u8>) -> bool {
        let number = self.flight.next_number();
        let carries = if let Some(size) = self.probe_bytes.take() {
            packet::encode_probe(datagram, number, size);
            0..0
        } else if let Some(next) = self.next_bytes(now) {
            packet::begin_data(datagram, number, next.start);
            self.outbox.copy(&next, datagram);
            self.retransmits += u64::from(self.outbox.note_sent(&next));
            next
        } else {
            return false;
        };
        self.launch(now, carries, datagram.len());
        true
    }

    fn next_bytes(&mut self, now: Duration) -> Option<Range<u64>> {
        let next = self.outbox.next(self.datagram_bytes - DATA_HEADER_BYTES)?;
        let admitted = self.greetings == 0 && self.window.admits(now, self.flight.bytes());
        admitted.then_some(next)
    }

    fn launch(&mut self, now: Duration, carries: Range<u64>, bytes: usize) {
        if self.flight.is_empty() {
            self.silent_since = self.silent_since.max(now);
        }
        self.asked = now;
        self.flight.launch(Transmission {
            carries,
            bytes,
            sent: now,
        });
    }
}

impl Missing {
    /// Acknowledgements may overtake each other: the one that knows of the latest packet counts,
    /// and of several the one that knows of the most late ones.
    fn note(&mut self, ack: &Ack) {
        let before = ack.numbers.first().map_or(0, |latest| latest.end);
        if before > self.before {
            *self = Self {
                before,
                count: ack.missing,
            };
        } else if before == self.before {
            self.count = self.count.min(ack.missing);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn informed(end: u64, missing: u64) -> Ack {
        let latest = end - 1..end;
        Ack {
            missing,
            numbers: [latest].into(),
            ..Ack::default()
        }
    }

    #[test]
    fn best_informed_acknowledgement_counts() {
        let mut missing = Missing::default();
        let mut note = |end: u64, count: u64| {
            missing.note(&informed(end, count));
            missing.count
        };
        assert_eq!(note(5, 2), 2);
        assert_eq!(note(4, 1), 2);
        assert_eq!(note(5, 1), 1);
        assert_eq!(note(5, 2), 1);
        assert_eq!(note(9, 4), 4);
    }
}
