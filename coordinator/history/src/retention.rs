//! How long the history is kept, by default. `[history]` of the coordinator's file sets it.

use std::time::Duration;

use crate::resolution::Resolution;

/// How long rows of each resolution are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    pub second: Duration,
    pub ten_seconds: Duration,
    pub five_minutes: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            second: Duration::from_hours(24),
            ten_seconds: Duration::from_hours(14 * 24),
            five_minutes: Duration::from_hours(400 * 24),
        }
    }
}

impl Retention {
    pub(crate) fn of(&self, resolution: Resolution) -> Duration {
        match resolution {
            Resolution::Second => self.second,
            Resolution::TenSeconds => self.ten_seconds,
            Resolution::FiveMinutes => self.five_minutes,
        }
    }
}
