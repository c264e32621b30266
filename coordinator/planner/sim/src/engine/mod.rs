//! The flow simulator: transfers over links, and the time at which each ends.
//!
//! Flows share links max-min fairly, by weight. A [`Problem`] has links, paths over them, and tasks that wait for one
//! another: transfers, and computations on devices that serve them in the order in which they become ready. Latencies
//! and start-up costs are delays of tasks; a forwarding host is a link on the path. [`simulate`] returns the start and
//! the end of every task. Time is counted in whole ticks and shares are whole numbers, so the outcome is the same on
//! every machine and independent of the order of tasks.

pub mod certificate;
mod fill;
pub mod flows;
mod group;
mod heaps;
mod late;
pub mod network;
mod problem;
mod queue;
pub mod raw;
mod run;
mod shares;
#[cfg(test)]
mod tests;
mod time;
mod waits;

pub(crate) use late::{loads, longest_chain};
pub(crate) use problem::must_fit;
pub use problem::{DeviceIndex, LinkIndex, PathIndex, Problem, ProblemError, TaskIndex, Work};
pub use run::{Outcome, Progress, Run, SimError};
pub use time::SimTime;
pub use waits::circle;

/// The course of a problem, from all that waits for nothing to the end of the last task.
/// Work is counted in links looked at; more than `limit` of it is an error.
pub fn simulate(problem: &Problem, limit: u64) -> Result<Outcome, SimError> {
    Run::new(problem, limit)?.finish()
}

/// Number of simulated points in time between two progress reports.
const STEPS_PER_PROGRESS_CHECK: u64 = 1 << 6;

/// The same; `watch` gets now and then how far it is, and says whether to go on.
pub fn watched(
    problem: &Problem,
    limit: u64,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<Outcome, SimError> {
    follow(Run::new(problem, limit)?, watch)
}

/// The same of a problem whose end is not after `latest`; nothing of any other.
pub fn watched_within(
    problem: &Problem,
    limit: u64,
    latest: SimTime,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<Option<Outcome>, SimError> {
    let run = Run::within(problem, limit, latest);
    match run.and_then(|run| follow(run, watch)) {
        Err(SimError::TooLate) => Ok(None),
        outcome => outcome.map(Some),
    }
}

fn follow(mut run: Run<'_>, watch: &mut dyn FnMut(Progress) -> bool) -> Result<Outcome, SimError> {
    for steps in 0u64.. {
        let progress = run.progress();
        if steps.is_multiple_of(STEPS_PER_PROGRESS_CHECK) && !watch(progress) {
            return Err(SimError::Stopped(progress));
        }
        if !run.step()? {
            break;
        }
    }
    run.finish()
}
