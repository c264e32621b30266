//! The machine's clocks: the one that never goes backwards, and the one that packets are stamped by.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use reweave_agent_core::latency::Clocks;
use reweave_common::moment::Moment;

/// A program that is not interrupted reads both clocks in less.
const AT_ONCE_NS: u64 = 5_000;
const MOST_TRIES: usize = 4;

/// Time since the machine started.
pub fn now() -> Moment {
    Moment::from_micros(micros(ClockId::CLOCK_MONOTONIC))
}

/// When the wall clock, by which kernels stamp packets, showed `stamp`. A step of the wall clock
/// since then makes it wrong, but never later than now.
pub(crate) fn when_stamped(stamp: Duration) -> Moment {
    let age = micros(ClockId::CLOCK_REALTIME).saturating_sub(stamp.as_micros() as u64);
    Moment::from_micros(now().as_micros().saturating_sub(age))
}

/// What both clocks show, read as close to one another as the machine allows.
pub fn clocks() -> Clocks {
    let read = || {
        let before = nanos(ClockId::CLOCK_MONOTONIC);
        let wall_ns = nanos(ClockId::CLOCK_REALTIME);
        let steady_ns = nanos(ClockId::CLOCK_MONOTONIC);
        (steady_ns - before, Clocks { steady_ns, wall_ns })
    };
    let mut best = read();
    for _ in 1..MOST_TRIES {
        if best.0 < AT_ONCE_NS {
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
