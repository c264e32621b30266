//! Mean and range of a few readings of a rate.

use reweave_common::units::Rate;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "Spread")]
pub struct RateSummary {
    pub mean: Rate,
    pub least: Rate,
    pub most: Rate,
}

impl RateSummary {
    /// None without readings.
    pub(crate) fn of(rates: &[Rate]) -> Option<Self> {
        let sum: u128 = rates.iter().map(|rate| u128::from(rate.bits_per_s())).sum();
        let mean = sum.checked_div(rates.len() as u128)?;
        Some(Self {
            mean: Rate::from_bits_per_s(u64::try_from(mean).ok()?),
            least: *rates.iter().min()?,
            most: *rates.iter().max()?,
        })
    }
}

/// `rate` times `factor`, limited to valid rates.
pub(crate) fn scaled(rate: Rate, factor: f64) -> Rate {
    Rate::from_bits_per_s((rate.bits_per_s() as f64 * factor) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(bits: &[u64]) -> Vec<Rate> {
        bits.iter().copied().map(Rate::from_bits_per_s).collect()
    }

    #[test]
    fn readings_lie_around_their_mean() {
        assert_eq!(RateSummary::of(&[]), None);
        let spread = RateSummary::of(&rates(&[10, 40, 70])).unwrap();
        let [mean, least, most] = [spread.mean, spread.least, spread.most].map(Rate::bits_per_s);
        assert_eq!([mean, least, most], [40, 10, 70]);
        let huge = RateSummary::of(&rates(&[u64::MAX, u64::MAX])).unwrap();
        assert_eq!(huge.mean.bits_per_s(), u64::MAX);
    }
}
