//! Received packets, by number.

use std::ops::Range;

use super::packet::MAX_RANGES;
use super::ranges::Ranges;

/// Gaps beyond this many are forgotten, the oldest first: a packet that fills one is so late that
/// it counts as a duplicate.
const MAX_GAPS: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Arrivals {
    seen: Ranges,
    /// One more than the highest number seen.
    end: u64,
    missing: u64,
    reordered: u64,
}

impl Arrivals {
    /// A packet has come, possibly not for the first time.
    pub(super) fn note(&mut self, number: u64) {
        if self.seen.contains(number) {
            return;
        }
        if number >= self.end {
            self.missing += number - self.end;
            self.end = number + 1;
        } else {
            self.missing -= 1;
            self.reordered += 1;
        }
        self.seen.insert(number..number + 1);
        self.forget();
    }

    fn forget(&mut self) {
        if self.seen.len() > MAX_GAPS {
            let second = self.seen.iter().nth(1).map_or(0, |range| range.start);
            self.seen.insert(0..second);
        }
    }

    /// Returns the number of missing packets before the last received one.
    pub(super) fn missing(&self) -> u64 {
        self.missing
    }

    /// Returns the number of packets that arrived after a later one.
    pub(super) fn reordered(&self) -> u64 {
        self.reordered
    }

    /// The latest first, as many as an acknowledgement holds.
    pub(super) fn latest(&self) -> Vec<Range<u64>> {
        self.seen.iter().rev().take(MAX_RANGES).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_reordered_and_duplicates_are_distinguished() {
        let mut arrivals = Arrivals::default();
        for number in [1, 2, 5, 5, 3, 3, 2] {
            arrivals.note(number);
        }
        assert_eq!((arrivals.missing(), arrivals.reordered()), (2, 1));
        assert_eq!(arrivals.latest(), [5..6, 1..4]);
        arrivals.note(0);
        assert_eq!((arrivals.missing(), arrivals.reordered()), (1, 2));
    }

    #[test]
    fn arrival_gaps_are_bounded_and_exact() {
        let mut arrivals = Arrivals::default();
        let count = 3 * MAX_GAPS as u64;
        for number in 0..count {
            arrivals.note(2 * number);
        }
        assert!(arrivals.seen.len() <= MAX_GAPS);
        assert_eq!(arrivals.missing(), count - 1);
        arrivals.note(1);
        assert_eq!((arrivals.missing(), arrivals.reordered()), (count - 1, 0));
    }
}
