//! The rate of a growing counter.

use std::collections::VecDeque;
use std::time::Duration;

use reweave_common::moment::Moment;
use reweave_common::units::{Bytes, Rate};

use crate::counter_delta;

/// A counter as it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Count {
    pub at: Moment,
    pub bytes: Bytes,
    /// For how long the counted one had something to send, since it began; where that is unknown,
    /// it counts as busy all the time.
    pub busy: Option<Duration>,
}

/// What is sent and what is acknowledged differ by what is on its way, and kernels count busy time
/// in ticks of up to 10 ms: a rate takes more of it than that.
const MIN_BUSY_TIME: Duration = Duration::from_millis(50);

/// How many rates a meter remembers at most.
const MAX_RATES: usize = 64;

/// Follows one counter.
#[derive(Debug, Default)]
pub struct Meter {
    last: Option<Count>,
    /// Where the time began that has not been rated yet.
    base: Option<Count>,
    recent: VecDeque<(Moment, Rate)>,
}

impl Meter {
    /// The rate since the reading before, while busy. None for the first reading, for an idle
    /// time, and when the counter began again. A time too short to be rated is added to the next.
    pub fn handle_count(&mut self, now: Count) -> Option<Rate> {
        let last = self.last.replace(now);
        let went_back = last.is_none_or(|last| grown(&last, &now).is_none());
        let base = self.base.filter(|_| !went_back);
        let rate = base.and_then(|base| rate_between(&base, &now));
        if base.is_none() || rate.is_some() {
            self.base = Some(now);
        }
        if let Some(rate) = rate {
            self.recent.push_back((now.at, rate));
            self.recent
                .drain(..self.recent.len().saturating_sub(MAX_RATES));
        }
        rate
    }

    /// What was counted since the reading before `now`, where the counter did not go back.
    pub fn grown(&self, now: &Count) -> Option<Bytes> {
        grown(self.last.as_ref()?, now)
    }

    /// The least and the most of the rates since `start`.
    pub fn range_since(&self, start: Moment) -> Option<[Rate; 2]> {
        let recent = self.recent.iter().filter(|(at, _)| *at >= start);
        let rates = recent.map(|&(_, rate)| rate);
        Some([rates.clone().min()?, rates.max()?])
    }
}

fn rate_between(last: &Count, now: &Count) -> Option<Rate> {
    let grown = grown(last, now)?;
    let wall = now.at.since(last.at);
    match (last.busy, now.busy) {
        (Some(before), Some(after)) => {
            let busy = after.checked_sub(before)?;
            (busy >= MIN_BUSY_TIME).then(|| Rate::mean(grown, busy))
        }
        _ => (wall > Duration::ZERO).then(|| Rate::mean(grown, wall)),
    }
}

/// Kernels count bytes in 64 bits.
fn grown(last: &Count, now: &Count) -> Option<Bytes> {
    counter_delta::grown(last.bytes.count(), now.bytes.count(), None).map(Bytes::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64, bytes: u64) -> Count {
        Count {
            at: Moment::from_micros(ms * 1000),
            bytes: Bytes::new(bytes),
            busy: None,
        }
    }

    fn busy(ms: u64, bytes: u64, busy_ms: u64) -> Count {
        Count {
            busy: Some(Duration::from_millis(busy_ms)),
            ..at(ms, bytes)
        }
    }

    /// The rates in Mb/s that a meter reads from `counts`.
    fn rates<const N: usize>(counts: [Count; N]) -> [Option<f64>; N] {
        let mut meter = Meter::default();
        counts.map(|count| meter.handle_count(count).map(Rate::mbps))
    }

    #[test]
    fn first_reading_has_no_rate() {
        let counts = [at(0, 7_000_000), at(500, 7_000_000 + 6_250_000)];
        assert_eq!(rates(counts), [None, Some(100.0)]);
    }

    #[test]
    fn idle_interface_has_zero_rate() {
        let counts = [at(0, 5), at(500, 5), at(500, 6)];
        assert_eq!(rates(counts), [None, Some(0.0), None]);
    }

    #[test]
    fn pausing_flow_is_rated_while_sending() {
        let counts = [
            busy(0, 0, 0),
            busy(500, 2_500_000, 100),
            busy(1000, 2_500_000, 100),
            busy(1500, 5_000_000, 200),
        ];
        assert_eq!(rates(counts), [None, Some(200.0), None, Some(200.0)]);
    }

    #[test]
    fn short_bursts_are_rated_together() {
        let counts = [
            busy(0, 0, 0),
            busy(500, 1_000_000, 30),
            busy(1000, 1_500_000, 60),
            busy(1500, 4_000_000, 160),
        ];
        assert_eq!(rates(counts), [None, None, Some(200.0), Some(200.0)]);
    }

    #[test]
    fn decreasing_counter_restarts_rate() {
        let loaded_again = [
            at(0, u64::from(u32::MAX) - 10),
            at(500, 90),
            at(1000, 6_250_090),
        ];
        assert_eq!(rates(loaded_again), [None, None, Some(100.0)]);
        let reused = [busy(0, 900, 800), busy(500, 1900, 40), busy(1000, 1900, 40)];
        assert_eq!(rates(reused), [None, None, None]);
    }

    #[test]
    fn rate_range_covers_recent_window() {
        let mut meter = Meter::default();
        for count in [at(0, 0), at(1000, 1000), at(2000, 3000), at(3000, 6000)] {
            meter.handle_count(count);
        }
        let range = |start_ms: u64| {
            let range = meter.range_since(Moment::from_micros(start_ms * 1000));
            range.map(|range| range.map(Rate::bits_per_s))
        };
        assert_eq!(range(0), Some([8_000, 24_000]));
        assert_eq!(range(2000), Some([16_000, 24_000]));
        assert_eq!(range(3001), None);
    }

    #[test]
    fn memory_is_bounded() {
        let mut meter = Meter::default();
        for second in 0..1000 {
            meter.handle_count(at(second * 1000, second * second));
        }
        assert_eq!(meter.recent.len(), MAX_RATES);
    }
}
