//! How long the ranks of a job say that iterations take.

use reweave_tests::{Job, STAGE_TIMEOUT, wait_for};

use crate::play::must;

/// How many iterations there were, and what they took together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Done {
    count: usize,
    took_ms: f64,
}

impl Done {
    pub(crate) fn new(count: usize, took_ms: f64) -> Self {
        Self { count, took_ms }
    }

    /// Whether there were this many more than earlier, if there were any.
    pub(crate) fn is_after(self, earlier: Option<Self>, more: usize) -> bool {
        self.count >= earlier.map_or(0, |it| it.count) + more
    }

    /// On average, since then.
    pub(crate) fn mean_ms_since(self, earlier: Self) -> f64 {
        (self.took_ms - earlier.took_ms) / (self.count - earlier.count) as f64
    }
}

/// Once there were this many more iterations.
pub(crate) fn after(job: &Job, more: usize) -> Done {
    let first = done(job);
    must(wait_for("the job goes on", STAGE_TIMEOUT, || {
        Ok(done(job).filter(|done| done.is_after(first, more)))
    }))
}

fn done(job: &Job) -> Option<Done> {
    let latest = job.latest()?;
    Some(Done::new(latest.iterations, latest.iterations_ms))
}
