//! Hosts of 100 Gb/s on a switch that is never the bottleneck: host `n` sends on link `2n` and
//! receives on link `2n + 1`.

use reweave_common::units::Rate;
use reweave_sim::engine::{PathIndex, Problem, SimTime, TaskIndex};

const VALID_PROBLEM: &str = "the problem is sound";

fn hosts(count: u32) -> Problem {
    let mut problem = Problem::new();
    for _ in 0..2 * count {
        problem
            .add_link(Rate::from_bits_per_s(100_000_000_000))
            .expect(VALID_PROBLEM);
    }
    problem
}

fn path(problem: &mut Problem, from: u32, to: u32) -> PathIndex {
    problem
        .add_path(&[2 * from, 2 * to + 1])
        .expect(VALID_PROBLEM)
}

fn send(problem: &mut Problem, path: PathIndex, bits: f64) -> TaskIndex {
    problem
        .add_transfer(path, bits, SimTime::ZERO)
        .expect(VALID_PROBLEM)
}

/// Every host sends 1 MB to every other, at the same time.
pub(crate) fn all_to_all(count: u32) -> Problem {
    let mut problem = hosts(count);
    for from in 0..count {
        for to in (0..count).filter(|&to| to != from) {
            let path = path(&mut problem, from, to);
            send(&mut problem, path, 8e6);
        }
    }
    problem
}

/// Every host sends to the next, then to the one after it, and so on; each starts a step when it has ended the previous
/// one.
pub(crate) fn shifted(count: u32) -> Problem {
    let mut problem = hosts(count);
    for shift in 1..count {
        for from in 0..count {
            let path = path(&mut problem, from, (from + shift) % count);
            let task = send(&mut problem, path, 8e6);
            if shift > 1 {
                problem.add_wait(task - count, task).expect(VALID_PROBLEM);
            }
        }
    }
    problem
}

/// All-reduce of 100 KB for each host around a ring: in each step, every host sends on what it has
/// received.
pub(crate) fn ring(count: u32) -> Problem {
    let mut problem = hosts(count);
    let paths: Vec<_> = (0..count)
        .map(|from| path(&mut problem, from, (from + 1) % count))
        .collect();
    for step in 0..2 * (count - 1) {
        for from in 0..count {
            let task = send(&mut problem, paths[from as usize], 8e5);
            if step > 0 {
                let before = task - from - count;
                problem.add_wait(before + from, task).expect(VALID_PROBLEM);
                problem
                    .add_wait(before + (from + count - 1) % count, task)
                    .expect(VALID_PROBLEM);
            }
        }
    }
    problem
}
