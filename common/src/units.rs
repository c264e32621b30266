//! Quantities with units, which cannot be mixed up.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign};
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// A data rate in whole bits per second. It is exact, so that results are the same on every machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rate {
    bits_per_s: u64,
}

/// Written as a number.
#[cfg(feature = "schema")]
impl utoipa::PartialSchema for Rate {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        u64::schema()
    }
}

#[cfg(feature = "schema")]
impl utoipa::ToSchema for Rate {}

impl Rate {
    /// Plausible range of a link's rate.
    pub(crate) const RANGE_GBPS: std::ops::RangeInclusive<f64> = 1e-6..=1e6;

    pub const fn from_bits_per_s(bits_per_s: u64) -> Self {
        Self { bits_per_s }
    }

    /// Returns `None` for an implausible rate (zero, negative, NaN, out of range).
    pub fn from_gbps(gbps: f64) -> Option<Self> {
        Self::RANGE_GBPS
            .contains(&gbps)
            .then(|| Self::from_bits_per_s((gbps * 1e9).round() as u64))
    }

    pub const fn bits_per_s(self) -> u64 {
        self.bits_per_s
    }

    pub fn gbps(self) -> f64 {
        self.bits_per_s as f64 / 1e9
    }

    /// Whether a measured rate exceeds this one by more than the tolerance of measurements.
    pub fn is_exceeded_by(self, measured_gbps: f64) -> bool {
        measured_gbps > 1.05 * self.gbps()
    }

    pub fn mbps(self) -> f64 {
        self.bits_per_s as f64 / 1e6
    }

    /// Returns the mean rate of `bytes` in `elapsed`; zero if no time passed.
    pub fn mean(bytes: Bytes, elapsed: Duration) -> Self {
        let nanos = elapsed.as_nanos();
        let bits = u128::from(bytes.count()) * 8 * 1_000_000_000;
        let bits_per_s = bits.checked_div(nanos).unwrap_or(0);
        Self::from_bits_per_s(u64::try_from(bits_per_s).unwrap_or(u64::MAX))
    }
}

/// The sum saturates, because hosts may report any number.
impl Sum for Rate {
    fn sum<I: Iterator<Item = Self>>(rates: I) -> Self {
        let sum = rates.fold(0, |sum: u64, rate| sum.saturating_add(rate.bits_per_s));
        Self::from_bits_per_s(sum)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bits_per_s {
            0..1_000_000 => write!(f, "{:.0} kb/s", self.bits_per_s as f64 / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.1} Mb/s", self.mbps()),
            _ => write!(f, "{:.1} Gb/s", self.gbps()),
        }
    }
}

/// A share in whole percent, at most 100.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Percent(u8);

impl Percent {
    pub const fn new(percent: u8) -> Option<Self> {
        if percent > 100 {
            return None;
        }
        Some(Self(percent))
    }

    /// Returns the percentage nearest to `share`; zero for NaN.
    pub fn of(share: f64) -> Self {
        Self((share * 100.0).round().clamp(0.0, 100.0) as u8)
    }

    pub const fn get(self) -> u8 {
        self.0
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", self.0)
    }
}

impl<'de> Deserialize<'de> for Percent {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let percent = u8::deserialize(from)?;
        let above = || D::Error::custom(format_args!("{percent} percent is above 100"));
        Self::new(percent).ok_or_else(above)
    }
}

/// Attenuation of light, in whole thousandths of a decibel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Loss {
    thousandths_db: u32,
}

impl Loss {
    /// Plausible range of loss: beyond it no usable light is left.
    pub(crate) const RANGE_DB: std::ops::RangeInclusive<f64> = 0.0..=100.0;

    /// Returns `None` for an implausible loss (negative, NaN, out of range).
    pub fn from_db(db: f64) -> Option<Self> {
        Self::RANGE_DB.contains(&db).then(|| Self {
            thousandths_db: (db * 1e3).round() as u32,
        })
    }

    pub fn db(self) -> f64 {
        f64::from(self.thousandths_db) / 1e3
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.db())
    }
}

impl Sum for Loss {
    fn sum<I: Iterator<Item = Self>>(losses: I) -> Self {
        let thousandths_db = losses.map(|it| it.thousandths_db).sum();
        Self { thousandths_db }
    }
}

/// A number of bytes.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(u64);

impl Bytes {
    pub const ZERO: Self = Self(0);

    pub const fn new(count: u64) -> Self {
        Self(count)
    }

    pub const fn count(self) -> u64 {
        self.0
    }

    pub fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Splits into `parts` whose sizes differ by at most one byte.
    pub fn split(self, parts: usize) -> impl Iterator<Item = Self> {
        let parts = parts as u64;
        (0..parts).map(move |part| Self(self.0 / parts + u64::from(part < self.0 % parts)))
    }
}

/// The sum saturates, because hosts may report any number.
impl Add for Bytes {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.saturating_add(other)
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        *self = self.saturating_add(other);
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(parts: I) -> Self {
        parts.fold(Self::ZERO, Self::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_is_positive_and_finite() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e7] {
            assert_eq!(Rate::from_gbps(bad), None, "{bad} Gb/s");
        }
        assert_eq!(
            Rate::from_gbps(0.2),
            Some(Rate::from_bits_per_s(200_000_000))
        );
    }

    #[test]
    fn mean_rate_needs_time() {
        let bytes = Bytes::new(12_500_000);
        assert_eq!(Rate::mean(bytes, Duration::ZERO).bits_per_s(), 0);
        assert_eq!(Rate::mean(bytes, Duration::from_secs(1)).mbps(), 100.0);
    }

    #[test]
    fn rates_are_displayed_in_readable_unit() {
        let shown = |bits| Rate::from_bits_per_s(bits).to_string();
        assert_eq!(shown(64_000), "64 kb/s");
        assert_eq!(shown(200_000_000), "200.0 Mb/s");
        assert_eq!(shown(400_000_000_000), "400.0 Gb/s");
    }

    #[test]
    fn splitting_loses_no_byte() {
        let parts: Vec<_> = Bytes::new(10).split(4).collect();
        assert_eq!(parts, [3, 3, 2, 2].map(Bytes::new));
        assert_eq!(parts.into_iter().sum::<Bytes>(), Bytes::new(10));
    }
}
