//! Time in a simulation: whole ticks, so that the order of events is the same on every machine.

use std::fmt;
use std::time::Duration;

/// A point in simulated time, or the length of a stretch of it. One tick is 10 femtoseconds: fine
/// enough that rounding is never seen, and 51 hours fit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SimTime(pub(super) u64);

impl SimTime {
    pub const ZERO: Self = Self(0);
    pub const MAX: Self = Self(u64::MAX);
    pub const TICKS_PER_S: u64 = 100_000_000_000_000;
    const TICKS_PER_NS: u64 = Self::TICKS_PER_S / 1_000_000_000;

    /// `None` when it is negative, not a number, or longer than a simulation can last.
    pub fn from_seconds(seconds: f64) -> Option<Self> {
        let ticks = (seconds * Self::TICKS_PER_S as f64).round();
        (0.0..u64::MAX as f64)
            .contains(&ticks)
            .then_some(Self(ticks as u64))
    }

    pub fn from_micros(micros: f64) -> Option<Self> {
        let ticks = (micros * (Self::TICKS_PER_S / 1_000_000) as f64).round();
        (0.0..u64::MAX as f64)
            .contains(&ticks)
            .then_some(Self(ticks as u64))
    }

    /// Converts a duration, limited to the longest simulation time.
    pub fn from_duration(duration: Duration) -> Self {
        let ticks = duration.as_nanos() * u128::from(Self::TICKS_PER_NS);
        Self(u64::try_from(ticks).unwrap_or(u64::MAX))
    }

    pub const fn from_ticks(ticks: u64) -> Self {
        Self(ticks)
    }

    pub const fn ticks(self) -> u64 {
        self.0
    }

    pub fn seconds(self) -> f64 {
        self.0 as f64 / Self::TICKS_PER_S as f64
    }

    pub fn millis(self) -> f64 {
        self.0 as f64 / (Self::TICKS_PER_S / 1000) as f64
    }

    pub fn micros(self) -> f64 {
        self.0 as f64 / (Self::TICKS_PER_S / 1_000_000) as f64
    }

    /// Since an earlier point; zero if it is later.
    pub fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// The sum, or the end of all time where it is later than that.
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Returns the multiple, limited to the longest simulation time.
    pub fn times(self, count: u32) -> Self {
        Self(self.0.saturating_mul(count.into()))
    }

    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }
}

impl fmt::Display for SimTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} us", self.micros())
    }
}
