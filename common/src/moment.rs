//! Points in time, which the owner of a clock passes in.

use std::ops::Add;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Microseconds of one monotonic clock. Moments of different clocks cannot be compared.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Moment(u64);

impl Moment {
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Returns the time since `earlier`; zero if that is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

/// The sum is limited to the last representable moment.
impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, later: Duration) -> Self {
        let later_us = u64::try_from(later.as_micros()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(later_us))
    }
}
