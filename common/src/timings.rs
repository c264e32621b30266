//! Measured durations of a model's operators.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::units::Bytes;

/// One measurement of an operator whose batch is split over some servers: the work of one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    pub forward: Duration,
    pub backward: Duration,
    /// Memory that it uses on a server.
    pub memory: Bytes,
}

/// Timings by kind of operator, and by the number of servers that share the batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timings {
    kinds: BTreeMap<String, BTreeMap<u32, Timing>>,
}

impl Timings {
    /// Adds a timing. Returns false and ignores it if the split has one already.
    pub fn insert(&mut self, kind: &str, split: u32, timing: Timing) -> bool {
        let splits = self.kinds.entry(kind.to_owned()).or_default();
        let new = !splits.contains_key(&split);
        splits.entry(split).or_insert(timing);
        new
    }

    pub fn get(&self, kind: &str, split: u32) -> Option<Timing> {
        self.kinds.get(kind)?.get(&split).copied()
    }

    /// Returns the measured splits, smallest first.
    pub fn splits(&self, kind: &str) -> impl DoubleEndedIterator<Item = (u32, Timing)> {
        let splits = self.kinds.get(kind).into_iter().flatten();
        splits.map(|(&split, &timing)| (split, timing))
    }

    /// Returns the timings for a batch `times` as large. Split `times` as often, its parts have the same size.
    /// Operators that were measured only on one server stay on one, and take `times` as long.
    pub fn of_a_larger_batch(&self, times: u32) -> Self {
        self.resized(|split| split.checked_mul(times), |time| time * times)
    }

    /// Returns the timings for a batch that is smaller by this factor; splits without a measurement are left out.
    pub fn of_a_smaller_batch(&self, times: u32) -> Self {
        let split = |split: u32| split.is_multiple_of(times).then(|| split / times);
        self.resized(split, |time| time / times)
    }

    fn resized(
        &self,
        split: impl Fn(u32) -> Option<u32>,
        whole: impl Fn(Duration) -> Duration,
    ) -> Self {
        let mut resized = Self::default();
        for (kind, splits) in &self.kinds {
            let is_whole = splits.keys().eq(&[1]);
            // The operator stays known, even without a usable split.
            resized.kinds.entry(kind.clone()).or_default();
            for (&parts, &timing) in splits {
                let Timing {
                    forward, backward, ..
                } = timing;
                let held = Timing {
                    forward: whole(forward),
                    backward: whole(backward),
                    ..timing
                };
                if is_whole {
                    resized.insert(kind, parts, held)
                } else {
                    split(parts).is_some_and(|it| resized.insert(kind, it, timing))
                };
            }
        }
        resized
    }

    pub fn kinds(&self) -> impl Iterator<Item = &str> {
        self.kinds.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(ms: u64) -> Timing {
        Timing {
            forward: Duration::from_millis(ms),
            backward: Duration::from_millis(2 * ms),
            memory: Bytes::new(1),
        }
    }

    #[test]
    fn timings_scale_to_smaller_batch() {
        let mut timings = Timings::default();
        for parts in [1, 2, 4] {
            timings.insert("dense", parts, timing(8 / u64::from(parts)));
        }
        timings.insert("table", 1, timing(6));
        let larger = timings.of_a_larger_batch(8);
        let parts = |of: &Timings| of.splits("dense").map(|it| it.0).collect::<Vec<_>>();
        assert_eq!(parts(&larger), [8, 16, 32]);
        assert_eq!(larger.get("dense", 16), timings.get("dense", 2));
        assert_eq!(larger.get("table", 1), Some(timing(48)));
        assert_eq!(larger.of_a_smaller_batch(8), timings);
        let half = timings.of_a_smaller_batch(2);
        assert_eq!(
            (parts(&half), half.get("table", 1)),
            (vec![1, 2], Some(timing(3)))
        );
    }
}
