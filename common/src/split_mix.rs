//! Pseudo-random numbers from a seed, the same on every machine.

use std::time::Duration;

/// The SplitMix64 generator. Every seed is good, neighbouring ones too.
#[derive(Debug, Clone)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `limit`, which must not be 0.
    pub fn below(&mut self, limit: usize) -> usize {
        self.below_u64(limit as u64) as usize
    }

    /// Returns a number below `limit`, which must not be 0.
    pub fn below_u64(&mut self, limit: u64) -> u64 {
        self.next_u64() % limit
    }

    /// Returns true for one draw in `count`, which must not be 0.
    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// Returns a duration below `limit`, or zero if `limit` is zero.
    pub fn below_duration(&mut self, limit: Duration) -> Duration {
        let nanos = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let drawn = u128::from(self.next_u64()) * u128::from(nanos);
        Duration::from_nanos((drawn >> 64) as u64)
    }

    /// Returns a number from 0 (included) to 1 (excluded).
    pub fn fraction(&mut self) -> f64 {
        self.upper_53_bits() as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number from 0 (excluded) to 1 (included).
    pub fn nonzero_fraction(&mut self) -> f64 {
        (self.upper_53_bits() + 1) as f64 / (1_u64 << 53) as f64
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    /// Returns the bits that an `f64` holds exactly.
    fn upper_53_bits(&mut self) -> u64 {
        self.next_u64() >> 11
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_match_splitmix64() {
        // First numbers of the reference implementation for this seed.
        let mut rng = SplitMix64::new(1_234_567);
        let drawn = [rng.next_u64(), rng.next_u64()];
        assert_eq!(
            drawn,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]
        );
    }

    #[test]
    fn durations_fill_range() {
        let mut rng = SplitMix64::new(1);
        let drawn = (0..1000).map(|_| rng.below_duration(Duration::from_micros(100)));
        let drawn: Vec<_> = drawn.collect();
        assert!(drawn.iter().all(|it| *it < Duration::from_micros(100)));
        let sum: Duration = drawn.iter().sum();
        assert!(
            (Duration::from_millis(48)..Duration::from_millis(52)).contains(&sum),
            "{sum:?}"
        );
        assert_eq!(rng.below_duration(Duration::ZERO), Duration::ZERO);
    }
}
