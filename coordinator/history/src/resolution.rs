//! Time resolutions of the history, and the periods of its folders.

use std::time::Duration;

use reweave_common::moment::Moment;
use serde::{Serialize, Serializer};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resolution {
    Second,
    TenSeconds,
    FiveMinutes,
}

impl Serialize for Resolution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl Resolution {
    /// All resolutions, finest first. Each is a multiple of the one before.
    pub const ALL: [Self; 3] = [Self::Second, Self::TenSeconds, Self::FiveMinutes];

    pub fn name(self) -> &'static str {
        match self {
            Self::Second => "1s",
            Self::TenSeconds => "10s",
            Self::FiveMinutes => "5min",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    pub fn width(self) -> Duration {
        match self {
            Self::Second => Duration::from_secs(1),
            Self::TenSeconds => Duration::from_secs(10),
            Self::FiveMinutes => Duration::from_mins(5),
        }
    }

    /// The period that one folder holds.
    pub(crate) fn period(self) -> Duration {
        match self {
            Self::Second | Self::TenSeconds => Duration::from_hours(1),
            Self::FiveMinutes => Duration::from_hours(24),
        }
    }
}

/// Returns the last multiple of `width` that is not after `at`.
pub(crate) fn floor(at: Moment, width: Duration) -> Moment {
    let width_us = u64::try_from(width.as_micros()).unwrap_or(u64::MAX).max(1);
    let at_us = at.as_micros();
    Moment::from_micros(at_us - at_us % width_us)
}
