//! CPU time and memory of a measurement.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use crate::machine::line_of;

/// Returns the peak memory of this process.
pub(crate) fn peak_mib() -> f64 {
    let line = line_of("/proc/self/status", "VmHWM").unwrap_or_default();
    let kib = line
        .split_ascii_whitespace()
        .next()
        .and_then(|it| it.parse().ok());
    kib.unwrap_or(0.0) / 1024.0
}

/// Runs a closure, and returns its result with the CPU seconds.
pub(crate) fn timed<T>(run: impl FnOnce() -> T) -> (T, f64) {
    let began = core_time();
    let result = run();
    (result, (core_time() - began).as_secs_f64())
}

fn core_time() -> Duration {
    let clock = ClockId::CLOCK_THREAD_CPUTIME_ID;
    clock_gettime(clock).map_or(Duration::ZERO, Duration::from)
}
