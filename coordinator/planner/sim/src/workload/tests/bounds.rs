//! Properties of any iteration on any fabric.

use proptest::prelude::*;

use super::*;

const RANKS: usize = 6;

/// A task, and how many of the last few it waits for.
#[derive(Debug, Clone)]
struct Draft {
    kind: usize,
    from: usize,
    to: usize,
    size: u64,
    waits: Vec<usize>,
}

fn drafts() -> impl Strategy<Value = Vec<Draft>> {
    let waits = proptest::collection::vec(1usize..8, 0..3);
    let draft = (0usize..7, 0..RANKS, 0..RANKS, 0u64..5_000_000, waits);
    let draft = draft.prop_map(|(kind, from, to, size, waits)| Draft {
        kind,
        from,
        to,
        size,
        waits,
    });
    proptest::collection::vec(draft, 1..25)
}

fn iteration(drafts: &[Draft]) -> Iteration {
    let mut sketch = Sketch::of(RANKS);
    let mut tasks: Vec<TaskId> = Vec::new();
    for draft in drafts {
        let mut after: Vec<_> = draft
            .waits
            .iter()
            .filter_map(|back| tasks.len().checked_sub(*back).map(|at| tasks[at]))
            .collect();
        after.sort_unstable();
        after.dedup();
        tasks.push(match draft.kind {
            0 | 1 => sketch.compute(draft.from, draft.size % 7, &after),
            2 | 3 => sketch.transfer([draft.from, draft.to], draft.size, &after),
            kind => sketch.all(Operation::ALL[kind - 4], draft.size, &after),
        });
    }
    sketch.done()
}

fn fabrics() -> Vec<Fabric> {
    vec![
        ideal(RANKS, 8),
        fabric("kind = \"direct\"\nhosts = 6\nlink_gbps = 8\nstrides = [1]\nlatency_us = 3"),
        fabric(
            "kind = \"leaf-spine\"\nleaves = 3\nspines = 2\nhosts_per_leaf = 2\nhost_gbps = 8\n\
             uplink_gbps = 4\nlatency_us = 1",
        ),
    ]
}

fn settings() -> Vec<Settings> {
    let mut hashed = Settings {
        spreading: Spreading::Hashed(Ecmp::Mixed { seed: 5 }),
        ..Settings::default()
    };
    hashed.costs.start_up = SimTime::from_micros(20.0).unwrap();
    hashed.costs.relay_rate = Rate::from_gbps(6.0);
    vec![
        Settings::default(),
        Settings {
            steps: Steps::Each,
            ..bare()
        },
        hashed,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn iteration_respects_bounds_and_adds_up(drafts in drafts()) {
        let iteration = iteration(&drafts);
        for fabric in fabrics() {
            for settings in settings() {
                let evaluation = evaluated(&iteration, &fabric, settings);
                let total = evaluation.iteration_ms;
                prop_assert!(total >= evaluation.bounds.most_ms() * (1.0 - 1e-9), "{evaluation:?}");
                for rank in &evaluation.ranks {
                    let sum = rank.compute_ms + rank.exposed_ms + rank.stalled_ms;
                    prop_assert!((sum - total).abs() < 1e-6, "{sum} of {total}");
                }
                let path: f64 = evaluation.critical.iter().map(|it| it.ms).sum();
                prop_assert!((path - total).abs() < 1e-6, "a path of {path} of {total}");
                let exposed: f64 = evaluation.exposed.iter().map(|it| it.ms).sum();
                prop_assert!((exposed - evaluation.mean.exposed_ms).abs() < 1e-6);
                for lane in &evaluation.lanes {
                    prop_assert!(lane.utilization <= 1.0 + 1e-9, "{lane:?}");
                }
            }
        }
    }
}
