//! Waiting for a condition that has no event, with exponential backoff: an attempt often runs a program, on the cores of
//! what it looks at.

use std::thread;
use std::time::{Duration, Instant};

/// Far more than anything takes here, on a machine that has other things to do.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_mins(2);
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(20);
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Waits until a counter is constant for `quiet`, counted in polls: a stall of the machine between two polls adds
/// nothing.
#[track_caller]
pub(crate) fn wait_until_constant(what: &str, quiet: Duration, mut count: impl FnMut() -> u64) {
    let needed = quiet.div_duration_f64(MAX_POLL_INTERVAL).ceil() as u32;
    let (mut last, mut same) = (count(), 0);
    wait_for(what, || {
        thread::park_timeout(MAX_POLL_INTERVAL);
        let now = count();
        same = if now == last { same + 1 } else { 0 };
        last = now;
        (same > needed).then_some(())
    });
}

/// Polls until `attempt` gives something.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + TEST_TIMEOUT;
    let mut poll_interval = MIN_POLL_INTERVAL;
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        thread::park_timeout(poll_interval);
        poll_interval = MAX_POLL_INTERVAL.min(poll_interval * 2);
    }
}
