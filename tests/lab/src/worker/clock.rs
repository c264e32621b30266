//! The machine's monotonic clock, which all its processes share.

use std::io;
use std::thread;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use tokio::task::spawn_blocking;
use tokio::time;

/// The timers of the runtime count in whole milliseconds, and are late by up to two.
const MAX_TIMER_ERROR: Duration = Duration::from_millis(2);

pub(crate) fn now() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map(Into::into)
        .expect("Linux has a monotonic clock")
}

pub(crate) fn micros(duration: Duration) -> u64 {
    duration.as_micros() as u64
}

/// Sleeps exactly this long: a computation of a few milliseconds must not take longer.
pub(crate) async fn sleep(duration: Duration) -> io::Result<()> {
    let until = now() + duration;
    time::sleep(duration.saturating_sub(MAX_TIMER_ERROR)).await;
    let rest = until.saturating_sub(now());
    spawn_blocking(move || thread::sleep(rest)).await?;
    Ok(())
}
