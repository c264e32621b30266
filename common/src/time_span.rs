//! A span of time that another machine measured, or that is computed from one. It is bounded, so that arithmetic cannot
//! overflow or panic.

use std::fmt;
use std::ops::{AddAssign, Deref};
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, de};

/// Always between zero and [`TimeSpan::MAX`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct TimeSpan(Duration);

impl TimeSpan {
    pub const ZERO: Self = Self(Duration::ZERO);
    /// Longer than any uptime, iteration or certificate.
    pub const MAX: Self = Self(Duration::from_hours(10 * 365 * 24));

    /// Limits a time to [`TimeSpan::MAX`].
    pub const fn new(time: Duration) -> Self {
        if time.as_nanos() > Self::MAX.0.as_nanos() {
            return Self::MAX;
        }
        Self(time)
    }

    /// Negative numbers and NaN become zero.
    pub fn from_secs_f64(seconds: f64) -> Self {
        // `max` returns its other operand for NaN.
        let seconds = seconds.max(0.0).min(Self::MAX.0.as_secs_f64());
        // This cannot fail within the bounds.
        Self(Duration::try_from_secs_f64(seconds).unwrap_or_default())
    }

    pub const fn from_secs(seconds: u64) -> Self {
        Self::new(Duration::from_secs(seconds))
    }

    pub const fn from_millis(millis: u64) -> Self {
        Self::new(Duration::from_millis(millis))
    }

    /// Checks a received value: one above the bound is an error.
    pub(crate) fn within<E: de::Error>(time: Duration) -> Result<Self, E> {
        let bounded = Self::new(time);
        if *bounded < time {
            let days = Self::MAX.as_secs() / 86_400;
            return Err(E::custom(format_args!("a time longer than {days} days")));
        }
        Ok(bounded)
    }

    pub const fn from_micros(micros: u64) -> Self {
        Self::new(Duration::from_micros(micros))
    }

    pub const fn from_nanos(nanos: u64) -> Self {
        Self::new(Duration::from_nanos(nanos))
    }

    pub const fn get(self) -> Duration {
        self.0
    }

    /// Returns the sum, limited to the maximum.
    pub const fn saturating_add(self, other: Self) -> Self {
        Self::new(self.0.saturating_add(other.0))
    }

    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    pub fn scaled(self, factor: f64) -> Self {
        Self::from_secs_f64(self.as_secs_f64() * factor)
    }
}

impl Deref for TimeSpan {
    type Target = Duration;

    fn deref(&self) -> &Duration {
        &self.0
    }
}

/// The sum is limited to the maximum.
impl AddAssign for TimeSpan {
    fn add_assign(&mut self, other: Self) {
        *self = self.saturating_add(other);
    }
}

impl From<Duration> for TimeSpan {
    fn from(time: Duration) -> Self {
        Self::new(time)
    }
}

/// Formatted as a duration.
impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl<'de> Deserialize<'de> for TimeSpan {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::within(Duration::deserialize(from)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_span_is_bounded_however_made() {
        let longest = [
            TimeSpan::new(Duration::MAX),
            TimeSpan::from_secs_f64(f64::INFINITY),
            TimeSpan::MAX.scaled(1e300),
            TimeSpan::from_millis(u64::MAX),
        ];
        assert_eq!(longest, [TimeSpan::MAX; 4]);
        let none = [f64::NAN, -1.0, f64::NEG_INFINITY].map(TimeSpan::from_secs_f64);
        assert_eq!(none, [TimeSpan::ZERO; 3]);
        assert_eq!(TimeSpan::ZERO.scaled(f64::INFINITY), TimeSpan::ZERO);
    }

    #[test]
    fn time_span_above_bound_is_refused() {
        let read = |time: Duration| {
            let written = serde_json::to_string(&time).unwrap();
            serde_json::from_str::<TimeSpan>(&written)
        };
        assert_eq!(read(TimeSpan::MAX.get()).unwrap(), TimeSpan::MAX);
        let above = TimeSpan::MAX.get() + Duration::from_nanos(1);
        let refused = read(above).unwrap_err().to_string();
        assert!(
            refused.starts_with("a time longer than 3650 days"),
            "{refused}"
        );
    }
}
