//! How long the ranks of a job say that iterations take.

use reweave_tests::{Job, PATIENCE, wait_for};

use crate::play::must;

/// How many iterations there were, and what they took together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Done {
    count: usize,
    took_ms: f64,
}

impl Done {
    /// On average, since then.
    pub(crate) fn mean_ms_since(self, earlier: Self) -> f64 {
        (self.took_ms - earlier.took_ms) / (self.count - earlier.count) as f64
    }
}

/// Once there were so many more iterations.
pub(crate) fn after(job: &Job, more: usize) -> Done {
    let first = done(job).map_or(0, |done| done.count);
    must(wait_for("the job goes on", PATIENCE, || {
        Ok(done(job).filter(|done| done.count >= first + more))
    }))
}

fn done(job: &Job) -> Option<Done> {
    let latest = job.latest()?;
    Some(Done {
        count: latest.iterations,
        took_ms: latest.iterations_ms,
    })
}
