//! All that is left to chance, drawn from one seed.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

#[derive(Debug)]
pub struct Chance(Pcg64Mcg);

impl Chance {
    pub fn of(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    /// A stream of its own, so that who draws more does not change what others draw.
    pub fn branch(&mut self) -> Self {
        Self::of(self.0.random())
    }

    pub fn happens(&mut self, probability: f64) -> bool {
        self.0.random_bool(probability)
    }

    /// Below `count`, which is not 0.
    pub fn below(&mut self, count: usize) -> usize {
        self.0.random_range(0..count)
    }

    pub fn number(&mut self) -> u64 {
        self.0.random()
    }

    pub fn share(&mut self, least: f64, most: f64) -> f64 {
        self.0.random_range(least..=most)
    }

    pub fn time(&mut self, least: Duration, most: Duration) -> Duration {
        let [least, most] = [least, most].map(|time| time.as_micros() as u64);
        Duration::from_micros(self.0.random_range(least..=most))
    }

    pub fn one_of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}
