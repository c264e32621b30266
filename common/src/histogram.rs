//! How long things took: counts of durations in buckets, which can be merged.
//!
//! Durations below 128 ns are counted exactly. Above, each doubling is cut into 64 buckets, and a
//! duration that is read back is the middle of its bucket: off by less than [`Histogram::ERROR`].
//! All of it is whole numbers, and so the same on every machine.

use std::fmt;
use std::time::Duration;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A map from buckets to counts on its way to others; in memory side by side, since coordinators
/// hold a million of them, most of a few buckets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    /// By number, each once.
    buckets: Vec<(u16, u32)>,
}

/// Buckets in each doubling.
const PARTS: u64 = 64;

impl Histogram {
    /// The most by which a duration that is read back differs, as a share of what it was.
    pub const ERROR: f64 = 1.0 / 128.0;

    pub fn record(&mut self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let bucket = bucket_of(nanos);
        match self.buckets.binary_search_by_key(&bucket, |it| it.0) {
            Ok(place) => add(&mut self.buckets[place].1, 1),
            Err(place) => self.buckets.insert(place, (bucket, 1)),
        }
    }

    /// Most of the time all buckets are known already, and then nothing is moved.
    pub fn merge(&mut self, other: &Self) {
        let missing = self.add_known(other);
        if missing == 0 {
            return;
        }
        let mut both = Vec::with_capacity(self.buckets.len() + missing);
        let mut own = self.buckets.iter().copied().peekable();
        for &(bucket, count) in &other.buckets {
            while let Some(below) = own.next_if(|it| it.0 < bucket) {
                both.push(below);
            }
            if own.peek().is_none_or(|it| it.0 != bucket) {
                both.push((bucket, count));
            }
        }
        both.extend(own);
        self.buckets = both;
    }

    /// Adds what falls into buckets that are there; how many are not.
    fn add_known(&mut self, other: &Self) -> usize {
        let mut own = self.buckets.iter_mut();
        let mut at = own.next();
        let mut missing = 0;
        for &(bucket, count) in &other.buckets {
            while at.as_ref().is_some_and(|it| it.0 < bucket) {
                at = own.next();
            }
            match &mut at {
                Some((same, known)) if *same == bucket => add(known, count),
                _ => missing += 1,
            }
        }
        missing
    }

    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|it| u64::from(it.1)).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// The duration that this share of all does not exceed: 0 gives the least, 1 the most.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        self.quantiles([share]).map(|[it]| it)
    }

    /// Of shares that ascend.
    pub fn quantiles<const N: usize>(&self, shares: [f64; N]) -> Option<[Duration; N]> {
        let all = self.count() as f64;
        let (mut buckets, mut below, mut last) = (self.buckets.iter(), 0, self.buckets.first()?.0);
        Some(shares.map(|share| {
            let rank = (share * all).ceil().max(1.0) as u64;
            while below < rank
                && let Some(&(bucket, count)) = buckets.next()
            {
                (below, last) = (below + u64::from(count), bucket);
            }
            Duration::from_nanos(middle_of(last))
        }))
    }

    pub fn least(&self) -> Option<Duration> {
        let (bucket, _) = self.buckets.first()?;
        Some(Duration::from_nanos(middle_of(*bucket)))
    }

    pub fn median(&self) -> Option<Duration> {
        self.quantile(0.5)
    }
}

fn add(own: &mut u32, more: u32) {
    *own = own.saturating_add(more);
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.buckets.iter().map(|(bucket, count)| (bucket, count)))
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Buckets)
    }
}

struct Buckets;

impl<'de> Visitor<'de> for Buckets {
    type Value = Histogram;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("counts of buckets")
    }

    /// Strangers may send them in any order, and one more than once.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Histogram, A::Error> {
        // No more than a few at once, whatever is announced.
        let mut buckets = Vec::with_capacity(map.size_hint().unwrap_or(0).min(64));
        while let Some(entry) = map.next_entry()? {
            buckets.push(entry);
        }
        if !buckets.is_sorted_by(|a: &(u16, u32), b| a.0 < b.0) {
            buckets.sort_by_key(|it| it.0);
            buckets.dedup_by(|later, first| {
                let is_same = later.0 == first.0;
                if is_same {
                    add(&mut first.1, later.1);
                }
                is_same
            });
        }
        Ok(Histogram { buckets })
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
            buckets: vec![(5, u32::MAX), (u16::MAX, 9)],
        };
        full.merge(&full.clone());
        assert_eq!(full.count(), u64::from(u32::MAX) + 18);
        assert!(full.median().is_some());
    }

    #[test]
    fn buckets_in_any_order_and_more_than_once_are_taken_as_what_they_say() {
        let told = r#"{"9": 1, "3": 2, "9": 4, "1": 4294967295, "1": 1}"#;
        let heard: Histogram = serde_json::from_str(told).unwrap();
        assert_eq!(heard.buckets, [(1, u32::MAX), (3, 2), (9, 5)]);
        let back = serde_json::to_string(&heard).unwrap();
        assert_eq!(back, r#"{"1":4294967295,"3":2,"9":5}"#);
    }
}
