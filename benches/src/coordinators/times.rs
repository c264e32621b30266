//! Timestamps that are valid for all programs on a machine, and statistics of durations.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

pub(crate) fn now() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from)
}

/// Count, median, 90th and 99th percentiles, and maximum.
pub(crate) struct Spread(Vec<Duration>);

impl Spread {
    pub(crate) fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    pub(crate) fn ms(&self, share: f64) -> f64 {
        let last = self.0.len().saturating_sub(1);
        let place = (last as f64 * share).ceil() as usize;
        let time = self.0.get(place).copied().unwrap_or_default();
        time.as_secs_f64() * 1e3
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }
}
