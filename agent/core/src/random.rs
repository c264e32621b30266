//! Pseudo-random numbers from a given seed: splitmix64.

use std::time::Duration;

#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A time shorter than `most`; none when that is none.
    pub fn below(&mut self, most: Duration) -> Duration {
        let nanos = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        let drawn = u128::from(self.draw()) * u128::from(nanos);
        Duration::from_nanos((drawn >> 64) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_matches_splitmix64() {
        // The first numbers of the reference implementation for this seed.
        let mut random = Random::new(1_234_567);
        let drawn = [random.draw(), random.draw()];
        assert_eq!(
            drawn,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]
        );
    }

    #[test]
    fn random_durations_fill_range() {
        let mut random = Random::new(1);
        let drawn = (0..1000).map(|_| random.below(Duration::from_micros(100)));
        let drawn: Vec<_> = drawn.collect();
        assert!(drawn.iter().all(|it| *it < Duration::from_micros(100)));
        let sum: Duration = drawn.iter().sum();
        assert!(
            (Duration::from_millis(48)..Duration::from_millis(52)).contains(&sum),
            "{sum:?}"
        );
        assert_eq!(random.below(Duration::ZERO), Duration::ZERO);
    }
}
