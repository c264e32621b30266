//! Properties of every outcome of the engine, on random problems.

mod courses;
mod hostile;
mod random;

use proptest::test_runner::{Config, RngSeed};

/// The same cases in every run.
fn seeded(cases: u32) -> Config {
    Config {
        cases,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..Config::default()
    }
}
