//! Tests of changes that pay off, and of those that do not.

use proptest::prelude::*;

use crate::cluster::{Estimate, Gain, Switching};

fn estimate(ms: f64, uncertain: f64, samples: f64) -> Estimate {
    Estimate {
        ms,
        low_ms: ms * (1.0 - uncertain),
        high_ms: ms * (1.0 + uncertain),
        samples,
    }
}

/// A hundred iterations of 10 ms more each are a second.
#[test]
fn change_pays_from_break_even() {
    let [old, new] = [estimate(110.0, 0.0, 1.0), estimate(100.0, 0.0, 1.0)];
    assert!(!Gain::of(&old, &new, 99.0, 1000.0).pays());
    assert!(!Gain::of(&old, &new, 100.0, 1000.0).pays());
    assert!(Gain::of(&old, &new, 101.0, 1000.0).pays());
}

/// The same gain pays off with mirrors, but not if a technician patches a panel.
#[test]
fn break_even_depends_on_switch_kind() {
    let [old, new] = [estimate(110.0, 0.0, 1.0), estimate(100.0, 0.0, 1.0)];
    let pays = |name: &str, circuits| {
        let cost_ms = Switching::named(name).unwrap().time_ms(circuits);
        Gain::of(&old, &new, 1000.0, cost_ms).pays()
    };
    assert!(pays("3d-mems", 16) && pays("silicon-photonic", 16));
    assert!(!pays("patch-panel", 16));
}

#[test]
fn jobs_compare_by_samples_learned() {
    let [old, new] = [estimate(100.0, 0.0, 4.0), estimate(110.0, 0.0, 8.0)];
    let gain = Gain::of(&old, &new, 400.0, 0.0);
    assert_eq!(gain.saved_ms, 10_000.0 - 5_500.0);
}

proptest! {
    #[test]
    fn gain_within_uncertainty_never_pays(
        ms in 1.0..1e3f64,
        faster in 0.5..1.0f64,
        uncertain in 0.0..0.5f64,
        left in 1.0..1e9f64,
        cost_ms in 0.0..1e3f64,
    ) {
        let (old, new) = (estimate(ms, uncertain, 1.0), estimate(ms * faster, uncertain, 1.0));
        let gain = Gain::of(&old, &new, left, cost_ms);
        if old.low_ms <= new.high_ms {
            prop_assert!(!gain.pays(), "{gain:?}");
        }
        prop_assert_eq!(gain.pays(), (old.low_ms - new.high_ms) * left > cost_ms);
    }
}
