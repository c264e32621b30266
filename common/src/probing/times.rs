//! Durations of the parts of probes: counts in buckets, which can be merged.
//!
//! Durations below 128 ns are counted exactly. Above, each doubling is divided into 64 buckets, and the value of a
//! bucket is its middle: off by less than [`Durations::MAX_RELATIVE_ERROR`]. All arithmetic is in whole numbers, and
//! so the same on every machine.

use std::fmt;
use std::time::Duration;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A part of a probe's duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbePart {
    /// Round-trip time between timestamps, without the time at the responder.
    Network,
    /// Time between arrival and departure at the responder.
    Responder,
    /// Time before departure and after arrival at the prober.
    Prober,
    /// Difference of the network time to that of the previous probe.
    Jitter,
}

/// Durations of all parts. Coordinators hold half a million of these, most with few buckets, so all buckets lie in one
/// exact allocation, part after part.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Times {
    /// Sorted by place, without duplicates.
    buckets: Vec<Bucket>,
}

/// Packed into six bytes instead of eight.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(Rust, packed(2))]
struct Bucket {
    /// Number of the bucket, counted over all parts.
    place: u16,
    count: u32,
}

/// The durations of one part.
#[derive(Clone, Copy)]
pub struct Durations<'t>(&'t [Bucket]);

/// Buckets in each doubling.
const BUCKETS_PER_DOUBLING: u64 = 64;
/// Buckets per part, including some that are never used.
const BUCKETS_PER_PART: u16 = 1 << 12;
/// Bucket of the longest duration.
const LAST_BUCKET: u16 = bucket_of(u64::MAX);

impl ProbePart {
    pub const ALL: [Self; 4] = [Self::Network, Self::Responder, Self::Prober, Self::Jitter];

    const fn first_place(self) -> u16 {
        self as u16 * BUCKETS_PER_PART
    }
}

impl Times {
    pub fn record(&mut self, part: ProbePart, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let place = part.first_place() + bucket_of(nanos);
        match self.buckets.binary_search_by_key(&place, |it| it.place) {
            Ok(index) => self.buckets[index].add(1),
            Err(index) => self.buckets.insert(index, Bucket { place, count: 1 }),
        }
    }

    pub fn of(&self, part: ProbePart) -> Durations<'_> {
        let (first, next) = (part.first_place(), part.first_place() + BUCKETS_PER_PART);
        let from = self.buckets.partition_point(|it| it.place < first);
        let to = self.buckets.partition_point(|it| it.place < next);
        Durations(&self.buckets[from..to])
    }

    /// Adds counts. Usually all buckets exist already, and nothing is moved.
    pub fn merge(&mut self, other: &Self) {
        let missing = self.add_known(other);
        if missing > 0 {
            self.take_in(other, missing);
        }
    }

    /// Adds the counts of existing buckets. Returns the number of missing buckets.
    fn add_known(&mut self, other: &Self) -> usize {
        let mut own = self.buckets.iter_mut();
        let mut at = own.next();
        let mut missing = 0;
        for bucket in &other.buckets {
            while at.as_ref().is_some_and(|it| it.place < bucket.place) {
                at = own.next();
            }
            match &mut at {
                Some(known) if known.place == bucket.place => known.add(bucket.count),
                _ => missing += 1,
            }
        }
        missing
    }

    /// Inserts this number of missing buckets.
    fn take_in(&mut self, other: &Self, missing: usize) {
        let mut both = Vec::with_capacity(self.buckets.len() + missing);
        let mut own = self.buckets.iter().copied().peekable();
        for bucket in &other.buckets {
            while let Some(below) = own.next_if(|it| it.place < bucket.place) {
                both.push(below);
            }
            if own.peek().is_none_or(|it| it.place != bucket.place) {
                both.push(*bucket);
            }
        }
        both.extend(own);
        self.buckets = both;
    }
}

impl Bucket {
    fn add(&mut self, more: u32) {
        self.count = self.count.saturating_add(more);
    }

    /// Whether any duration falls into the bucket.
    fn can_be(self) -> bool {
        usize::from(self.place / BUCKETS_PER_PART) < ProbePart::ALL.len()
            && self.place % BUCKETS_PER_PART <= LAST_BUCKET
    }

    fn middle(self) -> Duration {
        Duration::from_nanos(middle_of(self.place % BUCKETS_PER_PART))
    }
}

impl Durations<'_> {
    /// Maximum relative error of a duration that is read back.
    pub const MAX_RELATIVE_ERROR: f64 = 1.0 / 128.0;

    pub fn count(self) -> u64 {
        self.0.iter().map(|it| u64::from(it.count)).sum()
    }

    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Returns the duration at this quantile: 0 is the least, 1 the greatest.
    pub fn quantile(self, share: f64) -> Option<Duration> {
        self.quantiles([share]).map(|[it]| it)
    }

    /// Returns the durations at these quantiles, in ascending order.
    pub fn quantiles<const N: usize>(self, shares: [f64; N]) -> Option<[Duration; N]> {
        let all = self.count() as f64;
        let (mut buckets, mut below, mut last) = (self.0.iter(), 0, self.0.first()?);
        Some(shares.map(|share| {
            let rank = (share * all).ceil().max(1.0) as u64;
            while below < rank
                && let Some(bucket) = buckets.next()
            {
                (below, last) = (below + u64::from(bucket.count), bucket);
            }
            last.middle()
        }))
    }

    pub fn least(self) -> Option<Duration> {
        self.0.first().map(|it| it.middle())
    }

    pub fn median(self) -> Option<Duration> {
        self.quantile(0.5)
    }
}

const fn bucket_of(nanos: u64) -> u16 {
    let digits = u64::BITS - nanos.leading_zeros();
    let shift = digits.saturating_sub(BUCKETS_PER_DOUBLING.trailing_zeros() + 1);
    (shift as u64 * BUCKETS_PER_DOUBLING + (nanos >> shift)) as u16
}

const fn middle_of(bucket: u16) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * BUCKETS_PER_DOUBLING {
        return bucket;
    }
    let shift = bucket / BUCKETS_PER_DOUBLING - 1;
    let least = (bucket - shift * BUCKETS_PER_DOUBLING) << shift;
    least + (1 << shift) / 2
}

/// Serialized as a map from places to counts.
impl Serialize for Times {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.buckets.iter().map(|it| (it.place, it.count)))
    }
}

impl<'de> Deserialize<'de> for Times {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Buckets)
    }
}

struct Buckets;

impl<'de> Visitor<'de> for Buckets {
    type Value = Times;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("counts of buckets")
    }

    /// Other machines may send buckets in any order, with duplicates or impossible ones.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Times, A::Error> {
        // The announced size is not trusted for the allocation.
        let mut buckets = Vec::with_capacity(map.size_hint().unwrap_or(0).min(64));
        while let Some((place, count)) = map.next_entry()? {
            let bucket = Bucket { place, count };
            if bucket.can_be() {
                buckets.push(bucket);
            }
        }
        if !buckets.is_sorted_by(|a: &Bucket, b| a.place < b.place) {
            buckets.sort_by_key(|it| it.place);
            buckets.dedup_by(|later, first| {
                let is_same = later.place == first.place;
                if is_same {
                    first.add(later.count);
                }
                is_same
            });
        }
        Ok(Times { buckets })
    }
}

/// Formats the parts one after another.
impl fmt::Debug for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = ProbePart::ALL.map(|part| (part, self.of(part)));
        f.debug_map().entries(parts).finish()
    }
}

/// Formats count, minimum, median and maximum.
impl fmt::Debug for Durations<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of", self.count())?;
        let marks = self.quantiles([0.0, 0.5, 1.0]);
        let mut marks = marks.iter().flatten();
        marks.try_for_each(|mark| write!(f, " {mark:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(times: &mut Times, part: ProbePart, nanos: impl IntoIterator<Item = u64>) {
        for nanos in nanos {
            times.record(part, Duration::from_nanos(nanos));
        }
    }

    fn of(nanos: impl IntoIterator<Item = u64>) -> Times {
        let mut times = Times::default();
        add(&mut times, ProbePart::Network, nanos);
        times
    }

    /// Durations of every magnitude, at the edges of buckets, and at both ends of the range.
    fn durations() -> Vec<u64> {
        let powers = (0..64).map(|power| 1_u64 << power);
        let around = powers.flat_map(|it| [it - 1, it, it + it / 3, it + it / 2]);
        around.chain([u64::MAX]).collect()
    }

    #[test]
    fn durations_stay_within_relative_error() {
        for nanos in durations() {
            let times = of([nanos]);
            let back = times.of(ProbePart::Network).median().unwrap().as_nanos() as f64;
            let error = (back - nanos as f64).abs() / (nanos as f64).max(1.0);
            assert!(
                error <= Durations::MAX_RELATIVE_ERROR,
                "{nanos} became {back}"
            );
        }
    }

    #[test]
    fn duration_buckets_have_no_gaps() {
        let mut durations = durations();
        durations.sort_unstable();
        let buckets: Vec<_> = durations.iter().map(|it| bucket_of(*it)).collect();
        assert!(
            buckets.is_sorted()
                && buckets.last() == Some(&LAST_BUCKET)
                && LAST_BUCKET < BUCKETS_PER_PART
        );
        assert_eq!([127, 128, 129, 130].map(bucket_of), [127, 128, 128, 129]);
        assert_eq!([255, 256].map(bucket_of), [191, 192]);
    }

    #[test]
    fn quantiles_match_exact_durations() {
        let times = of((1..=1000).map(|it| it * 1000));
        for (share, expected) in [(0.0, 1e3), (0.5, 500e3), (0.99, 990e3), (1.0, 1e6)] {
            let got = times.of(ProbePart::Network).quantile(share).unwrap();
            let error = got.as_nanos() as f64 / expected - 1.0;
            assert!(
                error.abs() <= Durations::MAX_RELATIVE_ERROR,
                "{share}: {got:?}"
            );
        }
        assert_eq!(times.of(ProbePart::Jitter).quantile(0.5), None);
    }

    #[test]
    fn merged_times_equal_common_count() {
        let (a, b) = ((1..500).map(|it| it * 77), (1..300).map(|it| it * 1234));
        let mut merged = of(a.clone());
        merged.merge(&of(b.clone()));
        assert_eq!(merged, of(a.chain(b)));
        assert_eq!(merged.of(ProbePart::Network).count(), 499 + 299);
    }

    #[test]
    fn parts_are_kept_apart() {
        let mut times = of([7, u64::MAX]);
        let mut later = Times::default();
        add(&mut times, ProbePart::Prober, [0]);
        for (part, nanos) in ProbePart::ALL.into_iter().zip(1..) {
            add(&mut later, part, [nanos, nanos]);
        }
        times.merge(&later);
        let reports = ProbePart::ALL.map(|part| {
            let durations = times.of(part);
            (durations.count(), durations.least().unwrap().as_nanos())
        });
        assert_eq!(reports, [(4, 1), (2, 2), (3, 0), (2, 4)]);
    }

    #[test]
    fn bucket_takes_six_bytes() {
        assert_eq!(size_of::<Bucket>(), 6);
        let mut times = of((0..40).map(|it| it * 1000));
        times.merge(&of((0..60).map(|it| it * 1000)));
        assert_eq!(times.buckets.len(), times.buckets.capacity());
    }

    #[test]
    fn invalid_buckets_are_dropped_counts_saturate() {
        let text = format!(
            r#"{{"5": 4294967295, "{}": 1, "{}": 2, "65535": 9}}"#,
            LAST_BUCKET,
            LAST_BUCKET + 1
        );
        let mut times: Times = serde_json::from_str(&text).unwrap();
        times.merge(&times.clone());
        let network = times.of(ProbePart::Network);
        assert_eq!(network.count(), u64::from(u32::MAX) + 2);
        assert_eq!(times.buckets.len(), 2);
        assert!(network.quantile(1.0) > Some(Duration::from_secs(500 * 365 * 86_400)));
    }

    #[test]
    fn unordered_repeated_buckets_are_merged() {
        let text = r#"{"9": 1, "3": 2, "9": 4, "1": 4294967295, "1": 1}"#;
        let heard: Times = serde_json::from_str(text).unwrap();
        let back = serde_json::to_string(&heard).unwrap();
        assert_eq!(back, r#"{"1":4294967295,"3":2,"9":5}"#);
    }
}
