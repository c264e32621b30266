//! The default retention of the history. `[history]` in the coordinator's settings changes it.

use std::time::Duration;

use crate::resolution::Resolution;

/// The retention of rows, by resolution.
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
