//! The machine's monotonic clock, which all its processes share.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

pub(crate) fn now() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map(Into::into)
        .expect("Linux has a monotonic clock")
}

pub(crate) fn micros(duration: Duration) -> u64 {
    duration.as_micros() as u64
}
