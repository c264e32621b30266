//! How much a counter grew, where it may have wrapped, begun anew, or come to its end.

/// Counters of this many bits are common where those of 64 are not.
const NARROW: u64 = 1 << 32;

/// None when nobody can tell: the counter began anew, or stands at `most`, where it stays.
pub(super) fn grown(last: u64, now: u64, most: Option<u64>) -> Option<u64> {
    if most.is_some_and(|most| now >= most) {
        return None;
    }
    now.checked_sub(last)
        .or_else(|| wrapped(last, now).filter(|_| most.is_none()))
}

/// What went back from the last quarter of its range to the first has wrapped; anything else that
/// went back began anew.
fn wrapped(last: u64, now: u64) -> Option<u64> {
    let over_the_end = |range: u64| last >= range / 4 * 3 && now < range / 4;
    if last < NARROW {
        return over_the_end(NARROW).then(|| NARROW - last + now);
    }
    over_the_end(u64::MAX).then(|| now.wrapping_sub(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_grows() {
        assert_eq!(grown(5, 9, None), Some(4));
        assert_eq!(grown(5, 5, None), Some(0));
    }

    #[test]
    fn a_narrow_and_a_wide_counter_wrap() {
        assert_eq!(grown(NARROW - 10, 5, None), Some(15));
        assert_eq!(grown(u64::MAX - 9, 5, None), Some(15));
    }

    #[test]
    fn what_went_back_from_elsewhere_began_anew() {
        assert_eq!(grown(1000, 5, None), None);
        assert_eq!(grown(NARROW / 2, 5, None), None);
        assert_eq!(grown(NARROW - 10, NARROW / 2, None), None);
        assert_eq!(grown(NARROW + 7, 5, None), None);
    }

    #[test]
    fn a_counter_at_its_end_says_nothing() {
        assert_eq!(grown(250, 254, Some(255)), Some(4));
        assert_eq!(grown(254, 255, Some(255)), None);
        assert_eq!(grown(255, 255, Some(255)), None);
        assert_eq!(grown(255, 0, Some(255)), None);
    }
}
