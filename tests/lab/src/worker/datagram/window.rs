//! The congestion window: large enough that the narrowest link is never idle, so small that its queue stays at a few
//! milliseconds, and equal for all flows that share it.
//!
//! Each flow aims at a rate that falls with the square of the packets' delay. Flows that share a queue have the same
//! delay, so they aim at the same rate, independent of their start; and the queue grows only with the square root of
//! their number. A loss counts as a long queue, because a queue may be too short to be measured.

use std::time::Duration;

/// The rate times the square of a round trip: at 200 Mb/s a lone flow has one of 3.5 ms.
const RATE_RTT_SQUARED: f64 = 300_000.0; // bytes x ms
/// Round-trip times up to this value are attributed to queues alone. Only on a longer path must the delay of the path
/// be separated from that of queues, which is never exact on a busy machine. Flows on such a path aim at 1 Gb/s at
/// most.
const MAX_SHORT_RTT: Duration = Duration::from_micros(1500);
const MIN_WINDOW_PACKETS: f64 = 1.0;
const INITIAL_WINDOW_PACKETS: f64 = 4.0;
/// Factor of window and strength after a loss, and recovery per round trip.
const LOSS_FACTOR: f64 = 0.7;
const RECOVERY_PER_RTT: f64 = 0.02;
/// Interval at which the path is measured again, because a route may have changed, and duration of the pause in which
/// queues drain. All flows pause at the same time, because they share one clock.
const EPOCH_INTERVAL: Duration = Duration::from_secs(5);
const QUEUE_DRAIN_TIME: Duration = Duration::from_millis(20);

/// Known properties of a path before anything is sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Path {
    /// The largest datagram that it takes.
    pub(super) datagram_bytes: usize,
    /// More must never be in flight: the receiver's socket holds no more while its process waits
    /// for a processor.
    pub(super) most_bytes: usize,
}

#[derive(Debug)]
pub(super) struct Window {
    /// Bytes.
    size: f64,
    packet: f64,
    most: f64,
    /// Factor of the target rate: lower while packets are lost.
    strength: f64,
    /// Until a queue shows, the window doubles with each round trip.
    starting: bool,
    way: BaseRtt,
    round: Round,
    /// Packets sent earlier carry no new information about losses.
    reduced: Option<Duration>,
}

/// Measurements of one round trip.
#[derive(Debug, Default)]
struct Round {
    /// Number of the packet whose acknowledgement ends the round.
    ends_with: u64,
    /// Sum over all full packets that were acknowledged.
    rtt_sum: Duration,
    rtt_count: u32,
    /// Whether more would have been sent if it had been allowed.
    limited: bool,
}

/// The round trip without queues, as far as that is known.
#[derive(Debug, Default)]
struct BaseRtt {
    rtt: Option<Duration>,
    /// The epoch in which it was measured.
    measured: u64,
    /// The shortest since the pause began.
    in_pause: Option<Duration>,
    /// Result of the previous pause. A busy processor may prolong one, so the shorter of two counts.
    in_last_pause: Option<Duration>,
}

impl Window {
    pub(super) fn new(
        Path {
            datagram_bytes,
            most_bytes,
        }: Path,
    ) -> Self {
        let packet = datagram_bytes as f64;
        Self {
            size: INITIAL_WINDOW_PACKETS * packet,
            packet,
            most: most_bytes as f64,
            strength: 1.0,
            starting: true,
            way: BaseRtt::default(),
            round: Round::default(),
            reduced: None,
        }
    }

    /// Whether a further packet may be sent.
    pub(super) fn admits(&mut self, now: Duration, in_flight: usize) -> bool {
        let admitted = if self.way.pauses(now) {
            in_flight == 0
        } else {
            in_flight as f64 + self.packet / 2.0 < self.size
        };
        self.round.limited |= !admitted;
        admitted
    }

    /// A full packet came back after `rtt`. Short ones are faster, and would mislead.
    pub(super) fn note_rtt(&mut self, now: Duration, rtt: Duration) {
        self.way.note(now, rtt);
        self.round.rtt_sum += rtt;
        self.round.rtt_count += 1;
    }

    /// Packets of this many bytes have arrived, `latest` the last of them; `next` will be sent
    /// next.
    pub(super) fn note_arrived(&mut self, now: Duration, bytes: usize, latest: u64, next: u64) {
        self.starting &= !self.aim().is_some_and(|aim| aim < self.size);
        if self.starting && self.round.limited {
            self.size = (self.size + bytes as f64).min(self.most);
        }
        if latest >= self.round.ends_with {
            if !self.starting && !self.way.pauses(now) {
                self.end_round();
            }
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
            self.strength *= LOSS_FACTOR;
            self.size = (self.size * LOSS_FACTOR).max(self.least());
        }
    }

    pub(super) fn set_packet(&mut self, packet: usize) {
        self.packet = packet as f64;
    }

    fn end_round(&mut self) {
        self.strength = (self.strength + RECOVERY_PER_RTT).min(1.0);
        let Some(aim) = self.aim() else { return };
        let most = (self.packet / 2.0).max(self.size / 8.0);
        let step = ((aim - self.size) / 4.0).min(most);
        if step < 0.0 || self.round.limited {
            self.size = (self.size + step).min(self.most).max(self.least());
        }
    }

    /// The window that the last round trip suggests, in bytes.
    fn aim(&self) -> Option<f64> {
        let [rtt, way] = [self.round.rtt()?, self.way.rtt?];
        let on_long_way = way.saturating_sub(MAX_SHORT_RTT);
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        let queued = millis(rtt.saturating_sub(on_long_way)).max(0.01);
        Some(self.strength * RATE_RTT_SQUARED / (queued * queued) * millis(rtt))
    }

    fn least(&self) -> f64 {
        MIN_WINDOW_PACKETS * self.packet
    }
}

impl Round {
    fn rtt(&self) -> Option<Duration> {
        self.rtt_sum.checked_div(self.rtt_count)
    }
}

impl BaseRtt {
    fn note(&mut self, now: Duration, rtt: Duration) {
        if self.rtt.is_none_or(|known| rtt <= known.max(MAX_SHORT_RTT)) {
            *self = Self {
                rtt: Some(rtt),
                measured: epoch(now),
                ..Self::default()
            };
        } else if self.pauses(now) {
            self.in_pause = Some(self.in_pause.map_or(rtt, |known| known.min(rtt)));
        } else if let Some(shortest) = self.in_pause.take() {
            self.rtt = self
                .in_last_pause
                .map(|last| last.min(shortest))
                .or(self.rtt);
            self.in_last_pause = Some(shortest);
        }
    }

    fn pauses(&self, now: Duration) -> bool {
        self.measured + 1 < epoch(now) && in_epoch(now) < QUEUE_DRAIN_TIME
    }
}

fn epoch(now: Duration) -> u64 {
    now.as_secs() / EPOCH_INTERVAL.as_secs()
}

fn in_epoch(now: Duration) -> Duration {
    now - EPOCH_INTERVAL * epoch(now) as u32
}
