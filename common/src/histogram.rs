//! How long things took: counts of durations in buckets, which can be merged.
//!
//! Durations below 128 ns are counted exactly. Above, each doubling is cut into 64 buckets, and a
//! duration that is read back is the middle of its bucket: off by less than [`Histogram::ERROR`].
//! All of it is whole numbers, and so the same on every machine.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Histogram {
    buckets: BTreeMap<u16, u64>,
}

/// Buckets in each doubling.
const PARTS: u64 = 64;

impl Histogram {
    /// The most by which a duration that is read back differs, as a share of what it was.
    pub const ERROR: f64 = 1.0 / 128.0;

    pub fn record(&mut self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        *self.buckets.entry(bucket_of(nanos)).or_default() += 1;
    }

    pub fn merge(&mut self, other: &Self) {
        for (&bucket, &count) in &other.buckets {
            let own = self.buckets.entry(bucket).or_default();
            *own = own.saturating_add(count);
        }
    }

    pub fn count(&self) -> u64 {
        self.buckets
            .values()
            .fold(0, |sum, count| sum.saturating_add(*count))
    }

    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// The duration that this share of all does not exceed: 0 gives the least, 1 the most.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let rank = (share * self.count() as f64).ceil().max(1.0) as u64;
        let mut below: u64 = 0;
        let reached = |(_, count): &(&u16, &u64)| {
            below = below.saturating_add(**count);
            below >= rank
        };
        let (&bucket, _) = self.buckets.iter().find(reached)?;
        Some(Duration::from_nanos(middle_of(bucket)))
    }

    pub fn median(&self) -> Option<Duration> {
        self.quantile(0.5)
    }
}

/// Its count, least, median and most.
impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of", self.count())?;
        let marks = [0.0, 0.5, 1.0].map(|share| self.quantile(share));
        marks
            .iter()
            .flatten()
            .try_for_each(|mark| write!(f, " {mark:?}"))
    }
}

fn bucket_of(nanos: u64) -> u16 {
    let digits = u64::BITS - nanos.leading_zeros();
    let shift = digits.saturating_sub(PARTS.trailing_zeros() + 1);
    (u64::from(shift) * PARTS + (nanos >> shift)) as u16
}

/// Buckets that no duration falls into, which a stranger may have sent, count as endless.
fn middle_of(bucket: u16) -> u64 {
    let bucket = u64::from(bucket);
    if bucket < 2 * PARTS {
        return bucket;
    }
    let shift = bucket / PARTS - 1;
    let least = u128::from(bucket - shift * PARTS).checked_shl(shift as u32);
    let middle = least.map(|least| least + (1_u128 << shift.min(64)) / 2);
    middle
        .and_then(|it| u64::try_from(it).ok())
        .unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(nanos: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::default();
        for nanos in nanos {
            histogram.record(Duration::from_nanos(nanos));
        }
        histogram
    }

    /// Every order of magnitude, the edges of buckets, and both ends.
    fn durations() -> Vec<u64> {
        let powers = (0..64).map(|power| 1_u64 << power);
        let around = powers.flat_map(|it| [it - 1, it, it + it / 3, it + it / 2]);
        around.chain([u64::MAX]).collect()
    }

    #[test]
    fn what_is_read_back_is_within_the_error() {
        for nanos in durations() {
            let back = of([nanos]).median().unwrap().as_nanos() as f64;
            let error = (back - nanos as f64).abs() / (nanos as f64).max(1.0);
            assert!(error <= Histogram::ERROR, "{nanos} became {back}");
        }
    }

    #[test]
    fn buckets_follow_one_another_without_a_gap() {
        let mut durations = durations();
        durations.sort_unstable();
        let buckets: Vec<_> = durations.iter().map(|it| bucket_of(*it)).collect();
        assert!(buckets.is_sorted());
        assert_eq!([127, 128, 129, 130].map(bucket_of), [127, 128, 128, 129]);
        assert_eq!([255, 256].map(bucket_of), [191, 192]);
    }

    #[test]
    fn quantiles_are_those_of_the_durations_themselves() {
        let histogram = of((1..=1000).map(|it| it * 1000));
        for (share, expected) in [(0.0, 1e3), (0.5, 500e3), (0.99, 990e3), (1.0, 1e6)] {
            let got = histogram.quantile(share).unwrap().as_nanos() as f64;
            assert!(
                (got / expected - 1.0).abs() <= Histogram::ERROR,
                "{share}: {got}"
            );
        }
        assert_eq!(Histogram::default().quantile(0.5), None);
    }

    #[test]
    fn merging_is_as_if_all_had_been_counted_in_one() {
        let (a, b) = ((1..500).map(|it| it * 77), (1..300).map(|it| it * 1234));
        let mut merged = of(a.clone());
        merged.merge(&of(b.clone()));
        assert_eq!(merged, of(a.chain(b)));
        assert_eq!(merged.count(), 499 + 299);
    }

    #[test]
    fn buckets_that_cannot_be_harm_nobody() {
        for bucket in 0..=u16::MAX {
            middle_of(bucket);
        }
        let mut full = Histogram {
            buckets: BTreeMap::from([(5, u64::MAX), (u16::MAX, 9)]),
        };
        full.merge(&full.clone());
        assert_eq!(full.count(), u64::MAX);
        assert!(full.median().is_some());
    }
}
