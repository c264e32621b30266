//! The machine's clock that never goes backwards.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use reweave_common::moment::Moment;

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

fn micros(clock: ClockId) -> u64 {
    let time = clock_gettime(clock).expect("every Linux has these clocks");
    Duration::from(time).as_micros() as u64
}
