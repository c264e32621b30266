//! Measured durations of a model's operators.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::units::Bytes;

/// One measurement of an operator whose batch is split over some servers: what one of them does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    pub forward: Duration,
    pub backward: Duration,
    /// What it takes of a server's memory.
    pub memory: Bytes,
}

/// Timings by kind of operator, and by the number of servers that its batch is split over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timings {
    kinds: BTreeMap<String, BTreeMap<u32, Timing>>,
}

impl Timings {
    /// Whether this was new; a second timing of the same split is not taken.
    pub fn insert(&mut self, kind: &str, split: u32, timing: Timing) -> bool {
        let splits = self.kinds.entry(kind.to_owned()).or_default();
        let new = !splits.contains_key(&split);
        splits.entry(split).or_insert(timing);
        new
    }

    pub fn get(&self, kind: &str, split: u32) -> Option<Timing> {
        self.kinds.get(kind)?.get(&split).copied()
    }

    /// The splits that were measured, the smallest first.
    pub fn splits(&self, kind: &str) -> impl DoubleEndedIterator<Item = (u32, Timing)> {
        let splits = self.kinds.get(kind).into_iter().flatten();
        splits.map(|(&split, &timing)| (split, timing))
    }

    /// For a batch this many times as large: its parts are as large as before when it is split this many
    /// times as often. What was measured on one server alone is held whole by one, which takes so
    /// much longer.
    pub fn of_a_larger_batch(&self, times: u32) -> Self {
        self.resized(|split| split.checked_mul(times), |time| time * times)
    }

    /// For a batch of which this many are as large; splits that then were never measured are left out.
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
            // It is known, even where no part of it is of any use now.
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
