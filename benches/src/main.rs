//! `make bench`: how long the planner's parts take on this machine, one core each, beside what is
//! asked of them.

mod sim;

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

fn main() {
    sim::run();
}

/// Runs it and says how many seconds of a core it took. Whoever else computes here does not count.
pub(crate) fn timed<T>(run: impl FnOnce() -> T) -> (T, f64) {
    let began = core_time();
    let result = run();
    (result, (core_time() - began).as_secs_f64())
}

fn core_time() -> Duration {
    let clock = ClockId::CLOCK_THREAD_CPUTIME_ID;
    clock_gettime(clock).map_or(Duration::ZERO, Duration::from)
}
