//! The growth of a counter since its last reading: one rule for all counters.
//!
//! A counter that went back has restarted, because a driver was reloaded or a port was reset: the growth in between is
//! unknown. A 32-bit counter may instead have wrapped. A wrap is assumed if the resulting growth is like the growth
//! before, since a restarted counter rarely looks like that.

/// Some NICs only have 32-bit counters.
const COUNTER32_MODULUS: u64 = 1 << 32;
/// A wrap is assumed if the growth is at most this many times the growth before.
const MAX_PACE_FACTOR: u64 = 4;

/// The growth; none if it is unknown. `pace` is the growth between the two readings before, about as far apart; none
/// if that is unknown, and for 64-bit counters, which never wrap.
pub fn grown(last: u64, now: u64, pace: Option<u64>) -> Option<u64> {
    now.checked_sub(last)
        .or_else(|| wrapped(last, now).filter(|&grown| is_like(grown, pace)))
}

fn wrapped(last: u64, now: u64) -> Option<u64> {
    COUNTER32_MODULUS.checked_sub(last).map(|left| left + now)
}

fn is_like(grown: u64, pace: Option<u64>) -> bool {
    pace.is_some_and(|pace| grown <= pace.saturating_mul(MAX_PACE_FACTOR))
}

/// The latest value of a counter, and its growth before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterState {
    pub count: u64,
    /// The growth since the previous reading.
    pub grown: Option<u64>,
}

impl CounterState {
    pub fn first(count: u64) -> Self {
        Self { count, grown: None }
    }

    pub fn next(&self, count: u64) -> Self {
        let grown = grown(self.count, count, self.grown);
        Self { count, grown }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The growth at each of these readings except the first.
    fn growths(counts: &[u64]) -> Vec<Option<u64>> {
        let mut standing = CounterState::first(counts[0]);
        let rest = counts[1..].iter();
        rest.map(|&count| {
            standing = standing.next(count);
            standing.grown
        })
        .collect()
    }

    #[test]
    fn counter_growth_is_difference() {
        assert_eq!(growths(&[5, 9, 9]), [Some(4), Some(0)]);
    }

    #[test]
    fn steady_narrow_counter_wraps() {
        let counts = [COUNTER32_MODULUS - 1010, COUNTER32_MODULUS - 10, 990, 1990];
        assert_eq!(growths(&counts), [Some(1000); 3]);
    }

    #[test]
    fn reset_counter_does_not_wrap() {
        // The counter went from the last quarter of its range to the first, but too fast for a wrap.
        let reset = [
            COUNTER32_MODULUS / 8 * 7,
            COUNTER32_MODULUS / 8 * 7 + 1000,
            5,
            1005,
        ];
        assert_eq!(growths(&reset), [Some(1000), None, Some(1000)]);
        assert_eq!(growths(&[1000, 2000, 5]), [Some(1000), None]);
    }

    #[test]
    fn idle_counter_does_not_wrap() {
        assert_eq!(
            growths(&[COUNTER32_MODULUS - 1, COUNTER32_MODULUS - 1, 5]),
            [Some(0), None]
        );
    }

    #[test]
    fn second_reading_cannot_wrap() {
        assert_eq!(growths(&[COUNTER32_MODULUS - 10, 5]), [None]);
    }

    #[test]
    fn wide_counter_never_wraps() {
        assert_eq!(
            growths(&[COUNTER32_MODULUS, COUNTER32_MODULUS + 1000, 5]),
            [Some(1000), None]
        );
        assert_eq!(growths(&[u64::MAX - 9, u64::MAX, 5]), [Some(9), None]);
    }
}
