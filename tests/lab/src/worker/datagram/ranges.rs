//! Sets of numbers that mostly follow one another, kept as the stretches they form.

use std::collections::BTreeMap;
use std::ops::Range;

/// Stretches that neither overlap nor touch: where each begins, and where it ends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    pub(super) fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let Range { mut start, mut end } = range;
        while let Some((from, to)) = self.last_before(end + 1).filter(|(_, to)| *to >= start) {
            self.0.remove(&from);
            start = start.min(from);
            end = end.max(to);
        }
        self.0.insert(start, end);
    }

    pub(super) fn remove(&mut self, range: &Range<u64>) {
        if range.is_empty() {
            return;
        }
        while let Some((from, to)) = self
            .last_before(range.end)
            .filter(|(_, to)| *to > range.start)
        {
            self.0.remove(&from);
            if from < range.start {
                self.0.insert(from, range.start);
            }
            if to > range.end {
                self.0.insert(range.end, to);
            }
        }
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        self.last_before(number + 1)
            .is_some_and(|(_, to)| number < to)
    }

    pub(super) fn first(&self) -> Option<Range<u64>> {
        self.iter().next()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = Range<u64>> {
        self.0.iter().map(|(&from, &to)| from..to)
    }

    fn last_before(&self, end: u64) -> Option<(u64, u64)> {
        let (&from, &to) = self.0.range(..end).next_back()?;
        Some((from, to))
    }
}

#[cfg(test)]
#[allow(
    clippy::single_range_in_vec_init,
    reason = "one stretch is as good as several"
)]
mod tests {
    use super::*;

    fn of(ranges: &[Range<u64>]) -> Ranges {
        let mut set = Ranges::default();
        for range in ranges {
            set.insert(range.clone());
        }
        set
    }

    #[test]
    fn adjacent_ranges_merge() {
        assert_eq!(of(&[4..6, 0..2, 2..4]), of(&[0..6]));
        assert_eq!(of(&[0..1, 8..9, 3..5, 0..9]), of(&[0..9]));
        assert_eq!(of(&[0..2, 3..4]).len(), 2);
    }

    #[test]
    fn removal_splits_neighbouring_ranges() {
        let mut set = of(&[0..10, 20..30]);
        set.remove(&(5..25));
        assert_eq!(set, of(&[0..5, 25..30]));
        set.remove(&(2..3));
        assert_eq!(set, of(&[0..2, 3..5, 25..30]));
    }

    #[test]
    fn ranges_agree_with_number_set() {
        let mut state = 7_u64;
        let mut next = |bound: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % bound
        };
        let (mut set, mut numbers) = (Ranges::default(), std::collections::BTreeSet::new());
        for _ in 0..2000 {
            let from = next(60);
            let range = from..from + next(9);
            if next(3) == 0 {
                set.remove(&range);
                numbers.retain(|number| !range.contains(number));
            } else {
                numbers.extend(range.clone());
                set.insert(range);
            }
            for number in 0..70 {
                assert_eq!(set.contains(number), numbers.contains(&number));
            }
            assert!(
                set.iter()
                    .zip(set.iter().skip(1))
                    .all(|(a, b)| a.end < b.start)
            );
        }
    }
}
