//! The machine's clocks: the monotonic one, and the one of packet timestamps.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use reweave_agent_core::latency::Clocks;
use reweave_common::moment::Moment;

/// Reading both clocks takes less time, without an interruption.
const MAX_READ_GAP_NS: u64 = 5_000;
const MAX_TRIES: usize = 4;
/// Ticks come a little early or late.
const TICK_TOLERANCE: Duration = Duration::from_millis(10);

/// Time since the machine started.
pub fn now() -> Moment {
    Moment::from_micros(micros(ClockId::CLOCK_MONOTONIC))
}

/// Whether an action with this period is due at this tick.
pub(crate) fn is_due(last: Option<Moment>, now: Moment, period: Duration) -> bool {
    last.is_none_or(|last| now.since(last) + TICK_TOLERANCE >= period)
}

/// The monotonic time at which the wall clock showed `stamp`. If the wall clock was set since, the result is wrong,
/// but never in the future.
pub(crate) fn when_stamped(stamp: Duration) -> Moment {
    let age = micros(ClockId::CLOCK_REALTIME).saturating_sub(stamp.as_micros() as u64);
    Moment::from_micros(now().as_micros().saturating_sub(age))
}

/// Both clocks, read as close to each other as possible.
pub fn clocks() -> Clocks {
    let read = || {
        let before = nanos(ClockId::CLOCK_MONOTONIC);
        let wall_ns = nanos(ClockId::CLOCK_REALTIME);
        let steady_ns = nanos(ClockId::CLOCK_MONOTONIC);
        (steady_ns - before, Clocks { steady_ns, wall_ns })
    };
    let mut best = read();
    for _ in 1..MAX_TRIES {
        if best.0 < MAX_READ_GAP_NS {
            break;
        }
        let next = read();
        if next.0 < best.0 {
            best = next;
        }
    }
    best.1
}

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock).expect("every Linux has these clocks");
    Duration::from(time).as_nanos() as u64
}

fn micros(clock: ClockId) -> u64 {
    let time = clock_gettime(clock).expect("every Linux has these clocks");
    Duration::from(time).as_micros() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_tick_still_counts() {
        let second = Duration::from_secs(1);
        let last = Some(Moment::from_micros(5_000_000));
        let is_due_at = |micros| is_due(last, Moment::from_micros(micros), second);
        assert!(is_due_at(5_999_100) && is_due_at(6_000_900));
        assert!(!is_due_at(5_500_900), "nor at one in between");
        assert!(is_due(None, Moment::default(), second));
    }
}
