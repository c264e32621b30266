//! Property tests with the same cases in every run.

use proptest::test_runner::{Config, RngSeed};

pub(crate) fn config() -> Config {
    Config {
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..Config::default()
    }
}
