//! When trains may be sent: while the host's links are idle, and will stay idle.
//!
//! With an iteration period, that is its predicted idle gap, while the links are seen to be idle. Without a period, it
//! is when the links have been idle for a while. As long as it is unknown whether there is a period, no train is sent.
//! a period, no train goes.

use std::time::Duration;

use reweave_common::moment::Moment;
use reweave_common::periodicity::{IterationPeriod, Periodicity};
use reweave_common::units::{Bytes, Percent, Rate};

/// Older observations predict nothing.
const RHYTHM_TTL: Duration = Duration::from_secs(5);
/// Periods with a lower confidence predict nothing.
const MIN_CONFIDENCE: Percent = Percent::new(60).expect("it is at most 100");
/// The precision of periods.
const MIN_MARGIN: Duration = Duration::from_millis(5);
const MARGIN_DIVISOR: u32 = 8;
/// The least time since the links were last seen busy.
const MIN_IDLE_TIME: Duration = Duration::from_millis(20);
/// Without recent observations, idleness is unknown.
const WATCH_TTL: Duration = Duration::from_millis(160);
/// Without a period, links are idle when they have carried no more than this beyond background traffic, less what has
/// leaked since. Any load has leaked away after two seconds.
const MAX_QUIET_BYTES: f64 = 50_000.0;
const MAX_LOAD_BYTES: f64 = 2.0 * MAX_STILL_BYTES_PER_S;
/// Then they are assumed to stay idle for this time.
const QUIET_TTL: Duration = Duration::from_millis(200);

/// Background traffic that a train cannot disturb: control, probes, acknowledgements.
const MAX_STILL_BYTES_PER_S: f64 = 500_000.0;
/// A train cannot disturb traffic of this share of the links' largest traffic either.
const MAX_STILL_SHARE: f64 = 0.05;
/// The largest traffic decays by half within about a minute of readings.
const DECAY_PER_READING: f64 = 1.0 / 8192.0;

#[derive(Debug, Clone, Default)]
pub struct IdleGate {
    heard: Option<(Moment, Periodicity)>,
    busy: Option<Moment>,
    /// Whether the links ever carried more than background traffic.
    loaded: bool,
    watched: Option<Moment>,
    busiest: f64,
    /// The recent traffic beyond background traffic.
    load_bytes: f64,
}

impl IdleGate {
    pub fn handle_rhythm(&mut self, now: Moment, rhythm: Periodicity) {
        self.heard = Some((now, rhythm));
    }

    /// The traffic of all links in an interval.
    pub fn handle_growth(&mut self, from: Moment, to: Moment, bytes: Bytes) {
        let seconds = to.since(from).as_secs_f64().max(1e-3);
        let rate = bytes.count() as f64 / seconds;
        self.busiest = f64::max(self.busiest * (1.0 - DECAY_PER_READING), rate);
        self.watched = Some(to);
        let beyond = bytes.count() as f64 - MAX_STILL_BYTES_PER_S * seconds;
        self.load_bytes = (self.load_bytes + beyond).clamp(0.0, MAX_LOAD_BYTES);
        self.loaded |= self.load_bytes >= MAX_QUIET_BYTES;
        if rate > f64::max(MAX_STILL_BYTES_PER_S, MAX_STILL_SHARE * self.busiest) {
            self.busy = Some(to);
        }
    }

    /// Whether the links have only carried background traffic for a while.
    pub fn is_quiet(&self) -> bool {
        self.load_bytes < MAX_QUIET_BYTES
    }

    /// Whether the links are sampled.
    pub fn is_watched(&self) -> bool {
        self.watched.is_some()
    }

    /// The largest recent traffic, if it ever exceeded background traffic.
    pub fn busiest(&self) -> Option<Rate> {
        let busiest = Rate::from_bits_per_s((self.busiest * 8.0) as u64);
        self.loaded.then_some(busiest)
    }

    /// The end of the time in which a train that starts now disturbs no job. None if it would disturb one.
    pub fn open_until(&self, now: Moment) -> Option<Moment> {
        let fresh = |at: Moment| now.since(at) < RHYTHM_TTL;
        let (_, rhythm) = self.heard.filter(|(at, _)| fresh(*at))?;
        self.watched.filter(|at| now.since(*at) < WATCH_TTL)?;
        let rests = |busy: Moment| now.since(busy) >= MIN_IDLE_TIME;
        match rhythm {
            Periodicity::Unknown { .. } => None,
            Periodicity::None { .. } => self.is_quiet().then(|| now + QUIET_TTL),
            Periodicity::Found(beat) if self.busy.is_none_or(rests) => gap_left(&beat, now),
            Periodicity::Found(_) => None,
        }
    }
}

/// The time shortly before the end of the current gap. None outside of gaps.
fn gap_left(beat: &IterationPeriod, now: Moment) -> Option<Moment> {
    let period = beat.period.as_micros();
    if beat.confidence_percent < MIN_CONFIDENCE || period == 0 {
        return None;
    }
    let ahead = beat.next_gap.since(now).as_micros() % period;
    let behind = now.since(beat.next_gap).as_micros() % period;
    let into = if ahead > 0 { period - ahead } else { behind };
    let into = Duration::from_micros(into as u64);
    let margin = MIN_MARGIN.max(*beat.gap / MARGIN_DIVISOR);
    let end = beat.gap.checked_sub(margin)?;
    let left = end.checked_sub(into).filter(|left| !left.is_zero())?;
    (into >= margin).then(|| now + left)
}

#[cfg(test)]
mod tests {
    use reweave_common::time_span::TimeSpan;

    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::from_micros(ms * 1000)
    }

    fn beat() -> IterationPeriod {
        IterationPeriod {
            period: TimeSpan::from_millis(500),
            gap: TimeSpan::from_millis(200),
            sent: Bytes::new(1_000_000),
            received: Bytes::ZERO,
            shape: None,
            confidence_percent: Percent::new(95).unwrap(),
            iterations: 20,
            since: Moment::default(),
            next_gap: at(10_300),
        }
    }

    /// A job with this period, up to `end_ms`: its links are busy outside the gap.
    fn gate(rhythm: Periodicity, end_ms: u64, is_busy: impl Fn(u64) -> bool) -> IdleGate {
        let mut gate = IdleGate::default();
        for ms in (0..end_ms).step_by(10) {
            let bytes = if is_busy(ms) { 1_000_000 } else { 100 };
            gate.handle_growth(at(ms), at(ms + 10), Bytes::new(bytes));
        }
        gate.handle_rhythm(at(10_000), rhythm);
        gate
    }

    fn in_burst(ms: u64) -> bool {
        (ms + 500 - 300) % 500 >= 200
    }

    #[test]
    fn train_fits_into_gap() {
        let (mut open, mut longest) = (0, 0);
        for ms in (10_000..12_000).step_by(10) {
            let gate = gate(Periodicity::Found(beat()), ms, in_burst);
            let Some(until) = gate.open_until(at(ms)) else {
                continue;
            };
            open += 1;
            longest = longest.max(until.since(at(ms)).as_millis());
            for during in ms..=until.as_micros() / 1000 {
                assert!(!in_burst(during), "{ms}: open at {during}");
            }
        }
        assert!((40..=80).contains(&open), "{open} of 80");
        assert!((120..200).contains(&longest), "{longest} ms");
    }

    #[test]
    fn busy_wires_close_gap() {
        let gate = gate(Periodicity::Found(beat()), 10_400, |_| true);
        assert_eq!(gate.open_until(at(10_400)), None);
    }

    #[test]
    fn doubtful_or_old_period_closes_gate() {
        let doubtful = IterationPeriod {
            confidence_percent: Percent::new(40).unwrap(),
            ..beat()
        };
        let doubtful = gate(Periodicity::Found(doubtful), 10_400, in_burst);
        assert_eq!(doubtful.open_until(at(10_400)), None);
        let old = gate(Periodicity::Found(beat()), 15_400, in_burst);
        assert_eq!(old.open_until(at(15_400)), None);
        let sure = gate(Periodicity::Found(beat()), 10_400, in_burst);
        assert!(sure.open_until(at(10_400)).is_some());
    }

    #[test]
    fn chatter_is_no_traffic() {
        let watched = Duration::from_secs(10);
        let mut gate = gate(
            Periodicity::None {
                watched: watched.into(),
            },
            0,
            |_| false,
        );
        for ms in (0..10_000).step_by(10) {
            let bytes = if ms % 500 == 0 { 40_000 } else { 1000 };
            gate.handle_growth(at(ms), at(ms + 10), Bytes::new(bytes));
        }
        assert!(gate.open_until(at(10_000)).is_some());
    }

    #[test]
    fn gate_without_period_needs_idleness() {
        let watched = Duration::from_secs(10);
        let busy_until = |end: u64| {
            gate(
                Periodicity::None {
                    watched: watched.into(),
                },
                10_000,
                move |ms| ms < end,
            )
        };
        assert_eq!(busy_until(9_000).open_until(at(10_000)), None);
        assert!(busy_until(7_000).open_until(at(10_000)).is_some());
        let unknown = gate(
            Periodicity::Unknown {
                watched: watched.into(),
            },
            10_000,
            |_| false,
        );
        assert_eq!(unknown.open_until(at(10_000)), None);
        assert_eq!(IdleGate::default().open_until(at(0)), None);
    }

    #[test]
    fn unwatched_wires_close_gate() {
        let watched = Duration::from_secs(10);
        let gate = gate(
            Periodicity::None {
                watched: watched.into(),
            },
            10_000,
            |_| false,
        );
        assert!(gate.open_until(at(10_100)).is_some());
        assert_eq!(gate.open_until(at(10_200)), None);
    }
}
