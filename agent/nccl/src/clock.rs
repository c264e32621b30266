//! Start and end times of transfers. A system call for the time takes longer than the rest of a profiler call. So the
//! processor's own counter is read if the kernel uses it, too: then the kernel has checked that it runs evenly and
//! alike on all processors, and keeps checking.
//!
//! A counter does not state the length of its ticks. Only differences are reported. They are converted to time when
//! they are reported, by the advance of both clocks since the start.

use std::fs;
use std::sync::OnceLock;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// What the kernel of this machine goes by.
const CLOCKSOURCE_PATH: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
/// A thread that is interrupted between two clocks reads them again, and the closest reading counts.
const MAX_READINGS: usize = 5;

/// Once for all: what has begun by one clock would else end by another.
static TSC_TRUSTED: OnceLock<bool> = OnceLock::new();

/// Before anything is timed.
pub(crate) fn settle() {
    TSC_TRUSTED
        .get_or_init(|| is_trusted(&fs::read_to_string(CLOCKSOURCE_PATH).unwrap_or_default()));
}

/// The ticks of a clock whose readings can only be compared with each other.
pub(crate) fn ticks() -> u64 {
    match TSC_TRUSTED.get() {
        Some(true) => counted(),
        _ => now_ns(),
    }
}

/// The clock that agents go by.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC);
    now.map_or(0, |now| Duration::from(now).as_nanos() as u64)
}

/// Elsewhere reading the time is as cheap as it gets.
fn is_trusted(gone_by: &str) -> bool {
    cfg!(target_arch = "x86_64") && gone_by.trim() == "tsc"
}

#[cfg(target_arch = "x86_64")]
#[allow(
    unsafe_code,
    reason = "every such processor has the instruction, and it touches no memory"
)]
fn counted() -> u64 {
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn counted() -> u64 {
    now_ns()
}

/// Converts ticks to nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rate {
    ns: u64,
    ticks: u64,
}

impl Rate {
    #[cfg(test)]
    pub(crate) const fn of(ns: u64, ticks: u64) -> Self {
        Self { ns, ticks }
    }

    pub(crate) fn ns(self, ticks: u64) -> u64 {
        let ns = u128::from(ticks) * u128::from(self.ns) / u128::from(self.ticks.max(1));
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

/// The readings of both clocks at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    ns: u64,
    ticks: u64,
}

impl Reading {
    pub(crate) fn now() -> Self {
        let once = |_| {
            let (before, ns, after) = (ticks(), now_ns(), ticks());
            let apart = after.saturating_sub(before);
            let ticks = before + apart / 2;
            (apart, Self { ns, ticks })
        };
        let closest = (0..MAX_READINGS).map(once).min_by_key(|(apart, _)| *apart);
        closest.map_or(Self { ns: 0, ticks: 0 }, |(_, reading)| reading)
    }

    /// The longer ago this was read, the more exact.
    pub(crate) fn rate_since(self) -> Rate {
        let now = Self::now();
        Rate {
            ns: now.ns.saturating_sub(self.ns),
            ticks: now.ticks.saturating_sub(self.ticks),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_convert_to_elapsed_time() {
        let rate = Rate::of(10_000_000, 24_000_000);
        assert_eq!(rate.ns(0), 0);
        assert_eq!(rate.ns(2_400), 1_000);
        assert_eq!(rate.ns(24_000_000 * 360_000), 3_600_000_000_000);
        let stands_still = Rate::of(5, 0);
        assert_eq!(stands_still.ns(0), 0);
    }

    #[test]
    fn tsc_is_trusted_if_kernel_does() {
        assert_eq!(is_trusted("tsc\n"), cfg!(target_arch = "x86_64"));
        for other in ["kvm-clock\n", "hpet\n", "acpi_pm\n", ""] {
            assert!(!is_trusted(other), "{other}");
        }
    }
}
