//! Whether a course is over in time, answered as early as can be: a caller that only asks that need
//! not see the end of one that is not.

use super::problem::{Problem, TaskIndex, Work};
use super::time::SimTime;
use super::waits::{self, Followers};

/// Tolerance for sums of bits.
const ROUNDING_RATIO: f64 = 1.0 - 1e-9;
/// Ends are whole ticks, so each flow may take half a tick less than it should: a nanosecond for all.
const ROUNDING_TIME: SimTime = SimTime::from_ticks(100_000);

/// Remaining work, with the deadline.
#[derive(Debug)]
pub(super) struct Patience {
    latest: SimTime,
    /// Length of the longest chain of each task, from its release.
    chains: Vec<SimTime>,
    /// Bits of each link whose transfers have not started.
    waiting: Vec<f64>,
    is_over: bool,
}

impl Patience {
    pub(super) fn new(problem: &Problem, followers: &Followers, latest: SimTime) -> Self {
        Self {
            latest,
            chains: chains(problem, followers),
            waiting: loads(problem),
            is_over: false,
        }
    }

    /// Nothing more is asked.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    pub(super) fn at(&mut self, now: SimTime) {
        self.is_over |= now > self.latest;
    }

    pub(super) fn ready(&mut self, task: TaskIndex, now: SimTime) {
        self.at(now.plus(self.chains[task as usize]));
    }

    /// Each link has yet to carry all that begins now or later.
    pub(super) fn begins(&mut self, problem: &Problem, path: &[u32], bits: f64, now: SimTime) {
        for &link in path {
            let rate = problem.capacities()[link as usize].bits_per_s() as f64;
            let waiting = &mut self.waiting[link as usize];
            let left = SimTime::from_seconds(*waiting / rate * ROUNDING_RATIO);
            *waiting = (*waiting - bits).max(0.0);
            self.at(now.plus(left.unwrap_or(SimTime::MAX).since(ROUNDING_TIME)));
        }
    }
}

/// Returns the load of each link in bits.
pub(crate) fn loads(problem: &Problem) -> Vec<f64> {
    let mut of_path = vec![0.0; problem.paths()];
    for task in 0..problem.tasks() as u32 {
        if let Work::Transfer { path, bits } = problem.work(task) {
            of_path[path as usize] += bits;
        }
    }
    let mut loads = vec![0.0; problem.capacities().len()];
    for (path, bits) in (0..).zip(of_path) {
        for &link in problem.path(path) {
            loads[link as usize] += bits;
        }
    }
    loads
}

/// The longest chain of tasks that wait for one another, if each had all that it uses to itself.
pub(crate) fn longest_chain(problem: &Problem) -> SimTime {
    let chains = chains(problem, &Followers::of(problem));
    chains.into_iter().max().unwrap_or_default()
}

/// Returns the length of the longest chain that begins with each task.
fn chains(problem: &Problem, followers: &Followers) -> Vec<SimTime> {
    let mut chains = vec![SimTime::ZERO; problem.tasks()];
    for task in waits::order(problem, followers).into_iter().rev() {
        let after = &followers.tasks[followers.range_of(task)];
        let longest = after.iter().map(|&next| chains[next as usize]).max();
        chains[task as usize] = alone(problem, task).plus(longest.unwrap_or_default());
    }
    chains
}

/// Returns the time of a task without contention, rounded down.
fn alone(problem: &Problem, task: TaskIndex) -> SimTime {
    match problem.work(task) {
        Work::Compute { time, .. } => time,
        Work::Transfer { path, bits } => {
            let rate = |&link: &u32| problem.capacities()[link as usize].bits_per_s();
            let slowest = problem.path(path).iter().map(rate).min();
            let seconds = slowest.map_or(0.0, |slowest| bits / slowest as f64);
            let ticks = (seconds * SimTime::TICKS_PER_S as f64) as u64;
            problem.delay(task).plus(SimTime::from_ticks(ticks))
        }
    }
}
