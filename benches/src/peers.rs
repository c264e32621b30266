//! Comparison with SimGrid: times of each flow on new random problems, and run times of both.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use reweave_common::split_mix::SplitMix64;
use reweave_sim::engine::{self, Outcome, Problem, SimTime, raw};

use crate::cost::timed;
use crate::sim::patterns;

const SEEDS: std::ops::Range<u64> = 1..41;
const TOLERANCE: f64 = 1e-6;

/// What both simulate for speed.
struct Race {
    name: &'static str,
    hosts: u32,
    problem: fn(u32) -> Problem,
    /// Required ratio of the run times.
    wanted: f64,
}

const SPEED_RACES: [Race; 2] = [
    Race {
        name: "all-to-all",
        hosts: 256,
        problem: patterns::all_to_all,
        wanted: 1000.0,
    },
    Race {
        name: "ring",
        hosts: 1024,
        problem: patterns::ring,
        wanted: 5.0,
    },
];

/// Output of the peer: start and finish of each flow, and its cost.
struct Said {
    flows: Vec<[f64; 2]>,
    makespan_s: f64,
    core_s: f64,
}

pub(crate) fn compare(program: &str) -> ExitCode {
    println!("# seeds: {SEEDS:?}");
    let unequal: Vec<_> = SEEDS.filter(|&seed| !is_equal(program, seed)).collect();
    println!(
        "{} random problems, {} of them unequal",
        SEEDS.count(),
        unequal.len()
    );
    if unequal.is_empty() & race(program) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Returns whether all races are won.
pub(crate) fn race(program: &str) -> bool {
    println!("name flows ours_first_s ours_best_s simgrid_s times_as_fast goal");
    let speeds = SPEED_RACES.map(|race| race.is_won(program));
    speeds.into_iter().all(|it| it)
}

fn is_equal(program: &str, seed: u64) -> bool {
    let text = random_problem(seed);
    let file =
        std::env::temp_dir().join(format!("reweave-peers-{}-{seed}.raw", std::process::id()));
    fs::write(&file, &text).expect("the folder for temporary files can be written to");
    let said = ask(program, "raw", &file.display().to_string());
    let problem = raw::parse("random", &text).expect("the problem is sound");
    let outcome = simulate(&problem);
    let worst = worst(&outcome, &said.flows);
    let equal = said.flows.len() == problem.tasks() && worst <= TOLERANCE;
    if equal {
        let _ = fs::remove_file(&file);
    } else {
        println!("seed {seed}: apart by {worst:e}, see {}", file.display());
    }
    equal
}

/// Returns the greatest relative difference of a start or a finish.
fn worst(outcome: &Outcome, flows: &[[f64; 2]]) -> f64 {
    let ours = outcome.starts.iter().zip(&outcome.finishes);
    let apart = |ours: SimTime, theirs: f64| (ours.seconds() - theirs).abs() / theirs.max(1e-9);
    let pairs = ours.zip(flows);
    let worst = pairs.map(|((start, finish), [theirs_start, theirs_finish])| {
        apart(*start, *theirs_start).max(apart(*finish, *theirs_finish))
    });
    worst.fold(0.0, f64::max)
}

impl Race {
    fn is_won(&self, program: &str) -> bool {
        let problem = (self.problem)(self.hosts);
        let said = ask(program, self.name, &self.hosts.to_string());
        // The first run includes the cost of fresh memory.
        let (outcome, first_s) = timed(|| simulate(&problem));
        let again = (0..5).map(|_| timed(|| simulate(&problem)).1);
        let ours_s = again.fold(first_s, f64::min);
        let times = said.core_s / ours_s;
        let name = format!("{}-{}", self.name, self.hosts);
        let (flows, wanted) = (problem.tasks(), self.wanted);
        let theirs_s = said.core_s;
        println!("{name} {flows} {first_s:.4} {ours_s:.4} {theirs_s:.4} {times:.1} {wanted}");
        let apart = (outcome.makespan().seconds() / said.makespan_s - 1.0).abs();
        if apart > TOLERANCE {
            println!("{name}: makespans apart by {apart:e}");
        }
        times >= wanted && apart <= TOLERANCE
    }
}

fn simulate(problem: &Problem) -> Outcome {
    engine::simulate(problem, u64::MAX).expect("the problem is sound")
}

fn ask(program: &str, mode: &str, what: &str) -> Said {
    let output = Command::new(Path::new(program)).args([mode, what]).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run {program}: {error}"));
    assert!(
        output.status.success(),
        "{program} {mode} {what}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8_lossy(&output.stdout);
    let figure = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|it| it.trim().parse().ok())
            .expect("the peer says how it fared")
    };
    let times = |line: &str| {
        let mut words = line
            .split_ascii_whitespace()
            .skip(1)
            .map(|word| word.parse().ok());
        Some([words.next()??, words.next()??])
    };
    let flows = text.lines().filter(|line| !line.starts_with('#'));
    Said {
        flows: flows.filter_map(times).collect(),
        makespan_s: figure("# makespan_s"),
        core_s: figure("# core_s"),
    }
}

/// Returns flows over random paths, with random acyclic dependencies.
fn random_problem(seed: u64) -> String {
    let mut rng = SplitMix64::new(seed);
    let links = 5 + rng.below(35);
    let flows = 20 + rng.below(380);
    let cap = |_| format!("cap {}\n", [10, 25, 100, 400][rng.below(4)]);
    let mut text: String = (0..links).map(cap).collect();
    for _ in 0..flows {
        let bytes = [1_000_000, 1_000_000 + rng.below(9_000_000)][rng.below(2)];
        let delay_ns = [0, 0, 0, rng.below(100_000)][rng.below(4)];
        text += &format!("flow {bytes} {}", delay_ns as f64 * 1e-9);
        let mut path: Vec<_> = (0..=rng.below(6)).map(|_| rng.below(links)).collect();
        path.sort_unstable();
        path.dedup();
        text.extend(path.iter().map(|link| format!(" {link}")));
        text.push('\n');
    }
    for _ in 0..flows * 3 / 4 {
        let after = 1 + rng.below(flows - 1);
        text += &format!("dep {} {after}\n", rng.below(after));
    }
    text
}
