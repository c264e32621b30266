//! Circuits for the last counts of gates, in a region of 32 hosts.

use reweave_common::split_mix::SplitMix64;
use reweave_design::cluster::regional::{Counts, Region};

use crate::cost::timed;

const HOSTS: usize = 32;
const SEED: u64 = 1;
/// Circuits must be found within the iteration that they are for.
const MAX_TIME_MS: f64 = 5.0;
const ITERATION_COUNT: usize = 200;

pub(crate) fn measure_all(words: &[String]) {
    if !words.is_empty()
        && !words
            .iter()
            .any(|word| "regional-32".contains(word.as_str()))
    {
        return;
    }
    println!("# regional circuits, seed {SEED}, {ITERATION_COUNT} iterations of gates");
    println!("name hosts ports without_ms with_ms median_took_ms longest_took_ms goal_ms");
    for ports in [2, 4, 8] {
        measure(ports);
    }
}

fn measure(ports: usize) {
    let region = Region {
        ports,
        circuit_gbps: 100.0,
        switched_gbps: 100.0,
    };
    let none = Region { ports: 0, ..region };
    let mut rng = SplitMix64::new(SEED);
    let (mut took_ms, mut with_ms, mut without_ms) = (Vec::new(), 0.0, 0.0);
    for _ in 0..ITERATION_COUNT {
        let counts = gates(&mut rng);
        let (circuits, took_s) = timed(|| region.circuits(&counts));
        took_ms.push(took_s * 1e3);
        with_ms += region.time_ms(&counts, &circuits) / ITERATION_COUNT as f64;
        without_ms += none.time_ms(&counts, &none.circuits(&counts)) / ITERATION_COUNT as f64;
    }
    took_ms.sort_by(f64::total_cmp);
    println!(
        "regional-{HOSTS} {HOSTS} {ports} {without_ms:.3} {with_ms:.3} {:.3} {:.3} {MAX_TIME_MS}",
        took_ms[ITERATION_COUNT / 2],
        took_ms[ITERATION_COUNT - 1]
    );
}

/// Returns counts in which some experts are far more frequent: the r-th choice of a host gets a share of 1/r.
fn gates(rng: &mut SplitMix64) -> Counts {
    let mut counts = Counts::new(HOSTS);
    for from in 0..HOSTS {
        let mut order: Vec<_> = (0..HOSTS).collect();
        rng.shuffle(&mut order);
        for (rank, &to) in order.iter().enumerate() {
            counts.add(from, to, 64e6 / (rank + 1) as f64);
        }
    }
    counts
}
