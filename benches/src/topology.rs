//! Topologies and their routes.

use std::time::Duration;

use reweave_common::ids::Rank;
use reweave_common::iteration::{Iteration, IterationBuilder, Operation, TaskWork};
use reweave_common::units::{Bytes, Rate};
use reweave_design::topology::{self, Failed, Job, Limits, Request};
use reweave_sim::workload::Settings;

use crate::cost::{peak_mib, timed};

/// Time limits of topology and routes for this number of hosts and ports.
const BENCH_SIZES: [(&str, usize, usize, f64); 3] = [
    ("topology-128-d4", 128, 4, 0.2),
    ("topology-432-d8", 432, 8, 1.0),
    ("topology-4096-d8", 4096, 8, 20.0),
];
/// Time limit of routes after a failure, for 128 hosts.
const MAX_REPAIR_S: f64 = 0.05;
const SEED: u64 = 1;

/// Runs the benchmarks whose names contain one of the words; all without words.
pub(crate) fn measure_all(words: &[String]) {
    let is_asked = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word));
    println!("# seed: {SEED}");
    println!("name hosts degree family mean_hops took_s goal_s peak_mib");
    for (name, hosts, degree, goal_s) in BENCH_SIZES {
        if is_asked(name) {
            draft(name, hosts, degree, goal_s);
        }
    }
    if is_asked("repair-128-d4") {
        repair();
    }
}

/// All hosts reduce a gigabyte, and each of the first hosts sends to all.
fn iteration(hosts: usize, tables: usize) -> Iteration {
    let mut builder = IterationBuilder::new(hosts);
    let ranks: Vec<_> = (0..hosts).map(Rank::from_index).collect();
    let (group, name) = (builder.group(&ranks), builder.name("all"));
    let work = TaskWork::Collective {
        operation: Operation::AllReduce,
        group,
        bytes: Bytes::new(1_000_000_000),
        local: Duration::ZERO,
    };
    builder.add(name, work);
    for from in 0..tables {
        for to in (0..hosts).filter(|&to| to != from) {
            let [from, to] = [from, to].map(Rank::from_index);
            let bytes = Bytes::new(1_000_000);
            builder.add(name, TaskWork::Transfer { from, to, bytes });
        }
    }
    builder.build().expect("the iteration is sound")
}

/// Returns a request with ports of 100 Gb/s.
pub(crate) fn request(hosts: usize, degree: usize) -> Request {
    Request {
        limits: Limits::plain(hosts, degree),
        degree,
        rate: Rate::from_bits_per_s(100_000_000_000),
        seed: SEED,
        work: u64::MAX,
        relay: None,
        interval: false,
    }
}

fn draft(name: &str, hosts: usize, degree: usize, goal_s: f64) {
    let iteration = iteration(hosts, 16);
    let (place, settings) = ((0..hosts as u32).collect::<Vec<_>>(), Settings::default());
    let job = Job {
        iteration: &iteration,
        place: &place,
        settings: &settings,
    };
    let (drafts, took_s) = timed(|| topology::drafts(&job, &request(hosts, degree)));
    let drafts = drafts.expect("there is a topology");
    let best = &drafts[0];
    println!(
        "{name} {hosts} {degree} {} {:.3} {took_s:.3} {goal_s} {:.0}",
        best.design.family.word(),
        best.distances.mean(),
        peak_mib(),
    );
}

fn repair() {
    let iteration = iteration(128, 16);
    let (place, settings) = ((0..128).collect::<Vec<_>>(), Settings::default());
    let job = Job {
        iteration: &iteration,
        place: &place,
        settings: &settings,
    };
    let drafts = topology::drafts(&job, &request(128, 4)).expect("there is a topology");
    let (design, routes) = (&drafts[0].design, &drafts[0].routes);
    let failed = [Failed::Cable(design.wiring.pairs()[0])];
    let request = request(128, 4);
    let (repaired, took_s) =
        timed(|| topology::repair(design, Some(routes), &job, &request, &failed));
    let changed = repaired.expect("there is another way").changed.len();
    println!(
        "repair-128-d4 128 4 {changed}-tables {:.3} {took_s:.4} {MAX_REPAIR_S} {:.0}",
        drafts[0].distances.mean(),
        peak_mib(),
    );
}
