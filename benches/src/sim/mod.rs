//! Benchmarks of the flow simulator.

mod jobs;
pub(crate) mod patterns;

use reweave_sim::engine::{self, Problem};

use crate::cost::{peak_mib, timed};
use jobs::Placement;

/// A measurement with its time limit.
struct Bench {
    name: &'static str,
    goal_s: f64,
    problem: fn() -> Problem,
    rounds: u32,
}

const BENCHES: &[Bench] = &[
    Bench {
        name: "jobs-leaf-spine",
        goal_s: 0.1,
        problem: || jobs::on_leaf_spine(100, 32, Placement::InOrder),
        rounds: 5,
    },
    Bench {
        name: "jobs-leaf-spine-scattered",
        goal_s: 0.1,
        problem: || jobs::on_leaf_spine(100, 32, Placement::Scattered),
        rounds: 5,
    },
    Bench {
        name: "jobs-leaf-spine-400g-uplinks",
        goal_s: 0.1,
        problem: || jobs::on_leaf_spine(400, 16, Placement::InOrder),
        rounds: 5,
    },
    Bench {
        name: "jobs-direct",
        goal_s: 0.4,
        problem: || jobs::on_direct(Placement::InOrder),
        rounds: 5,
    },
    Bench {
        name: "jobs-direct-scattered",
        goal_s: 0.4,
        problem: || jobs::on_direct(Placement::Scattered),
        rounds: 5,
    },
    Bench {
        name: "all-to-all-256",
        goal_s: f64::NAN,
        problem: || patterns::all_to_all(256),
        rounds: 20,
    },
    Bench {
        name: "ring-1024",
        goal_s: f64::NAN,
        problem: || patterns::ring(1024),
        rounds: 3,
    },
    Bench {
        name: "all-to-all-4096-shifted",
        goal_s: 8.0,
        problem: || patterns::shifted(4096),
        rounds: 1,
    },
];

/// Runs the benchmarks whose names contain one of the words; all without words.
pub(crate) fn measure_all(words: &[String]) {
    println!("# seed: {}", jobs::SEED);
    println!("name flows events makespan_us built_s best_s goal_s peak_mib");
    for bench in BENCHES {
        if words.is_empty() || words.iter().any(|word| bench.name.contains(word)) {
            bench.measure();
        }
    }
}

impl Bench {
    fn measure(&self) {
        let (problem, built_s) = timed(self.problem);
        let mut best_s = f64::INFINITY;
        let mut last = None;
        for _ in 0..self.rounds {
            let (outcome, took_s) = timed(|| engine::simulate(&problem, u64::MAX));
            best_s = best_s.min(took_s);
            last = Some(outcome.expect("the problem is sound"));
        }
        let outcome = last.expect("there is a round");
        println!(
            "{} {} {} {:.3} {built_s:.3} {best_s:.4} {} {:.0}",
            self.name,
            problem.tasks(),
            outcome.events,
            outcome.makespan().micros(),
            self.goal_s,
            peak_mib(),
        );
    }
}
