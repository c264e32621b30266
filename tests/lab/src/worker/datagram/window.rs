//! How much may be in flight: enough that the narrowest link is never idle, so little that its
//! queue stays at a few milliseconds, and the same for all who share it.
//!
//! Each flow aims at a rate that falls with the square of the time packets wait in queues. All
//! who share a queue see the same wait, so they aim at the same rate, and the wait grows only with
//! the root of their number. A loss says the same as a long wait, in case a queue is too short to
//! tell by waiting.

use std::time::Duration;

/// The rate times the square of the wait: at 200 Mb/s a lone flow keeps a queue of 3 ms.
const RATE_TIMES_WAIT_SQUARED: f64 = 225_000.0; // bytes x ms
/// So few packets may always be in flight: with one alone, each loss would cost a timeout.
const LEAST_PACKETS: f64 = 2.0;
const FIRST_PACKETS: f64 = 4.0;
/// What is left after a loss.
const LOSS_FACTOR: f64 = 0.7;
/// A path may change, so the shortest round trip is measured anew, with the queue drained.
const BASE_LASTS: Duration = Duration::from_secs(5);
const DRAIN: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct Window {
    /// Bytes.
    size: f64,
    packet: f64,
    starting: bool,
    base: Base,
    round: Round,
    /// Packets sent earlier tell nothing new about losses.
    reduced: Option<Duration>,
}

/// What one round trip has shown.
#[derive(Debug, Default)]
struct Round {
    /// It ends when this packet is acknowledged.
    ends_with: u64,
    shortest: Option<Duration>,
    /// Whether more would have been sent if it had been allowed.
    limited: bool,
}

/// The round trip without queues.
#[derive(Debug, Default)]
struct Base {
    rtt: Option<Duration>,
    measured: Duration,
    drain: Option<Drain>,
}

/// A pause that lets the queue run empty.
#[derive(Debug)]
struct Drain {
    until: Duration,
    shortest: Duration,
}

impl Window {
    pub(super) fn new(packet: usize) -> Self {
        let packet = packet as f64;
        Self {
            size: FIRST_PACKETS * packet,
            packet,
            starting: true,
            base: Base::default(),
            round: Round::default(),
            reduced: None,
        }
    }

    /// Whether a packet may be sent beside those in flight.
    pub(super) fn admits(&mut self, in_flight: usize) -> bool {
        let size = match self.base.drain {
            Some(_) => self.least(),
            None => self.size,
        };
        let admitted = (in_flight as f64) < size;
        self.round.limited |= !admitted;
        admitted
    }

    /// A full packet came back after `rtt`. Short ones are faster, and would mislead.
    pub(super) fn note_rtt(&mut self, now: Duration, rtt: Duration) {
        self.base.note(now, rtt);
        let shortest = self.round.shortest.map_or(rtt, |known| known.min(rtt));
        self.round.shortest = Some(shortest);
    }

    /// Packets of so many bytes have arrived, `latest` the last of them; `next` will be sent next.
    pub(super) fn note_arrived(&mut self, bytes: usize, latest: u64, next: u64) {
        self.starting &= !self.aim().is_some_and(|aim| aim.size < self.size);
        if self.starting && self.round.limited {
            self.size += bytes as f64;
        }
        if latest >= self.round.ends_with {
            self.end_round();
            self.round = Round {
                ends_with: next,
                ..Round::default()
            };
        }
    }

    /// A packet sent at `sent` is lost.
    pub(super) fn note_loss(&mut self, now: Duration, sent: Duration) {
        if self.reduced.is_none_or(|reduced| sent > reduced) {
            self.reduced = Some(now);
            self.starting = false;
            self.size = (self.size * LOSS_FACTOR).max(self.least());
        }
    }

    /// Nothing has come back for long: what is known of the path is worthless.
    pub(super) fn begin_again(&mut self) {
        self.size = self.least();
        self.starting = true;
    }

    pub(super) fn set_packet(&mut self, packet: usize) {
        self.packet = packet as f64;
    }

    fn end_round(&mut self) {
        let Some(aim) = self.aim() else { return };
        if self.starting || self.base.drain.is_some() {
            return;
        }
        let most = self.packet.max(self.size / 8.0);
        let step = ((aim.size - self.size) * aim.queued / 4.0).min(most);
        if step < 0.0 || self.round.limited {
            self.size = (self.size + step).max(self.least());
        }
    }

    fn aim(&self) -> Option<Aim> {
        let [rtt, base] =
            [self.round.shortest?, self.base.rtt?].map(|time| time.as_secs_f64() * 1e3);
        let wait = (rtt - base).max(0.01);
        Some(Aim {
            size: RATE_TIMES_WAIT_SQUARED / (wait * wait) * rtt,
            queued: wait / rtt,
        })
    }

    fn least(&self) -> f64 {
        LEAST_PACKETS * self.packet
    }
}

/// Where the last round trip says to go.
struct Aim {
    /// The window, in bytes.
    size: f64,
    /// The share of packets in flight that wait in queues: what a step of the window moves.
    queued: f64,
}

impl Base {
    fn note(&mut self, now: Duration, rtt: Duration) {
        if let Some(drain) = &mut self.drain {
            drain.shortest = drain.shortest.min(rtt);
            let shortest = drain.shortest;
            if now >= drain.until {
                self.set(now, shortest);
            }
        } else if self.rtt.is_none_or(|known| rtt <= known) {
            self.set(now, rtt);
        } else if now >= self.measured + BASE_LASTS {
            self.drain = Some(Drain {
                until: now + rtt + DRAIN,
                shortest: rtt,
            });
        }
    }

    fn set(&mut self, now: Duration, rtt: Duration) {
        *self = Self {
            rtt: Some(rtt),
            measured: now,
            drain: None,
        };
    }
}
