//! Who takes turns to compute and to send: the lab's ranks, or Open MPI's.

use reweave_tests::{Job, STAGE_TIMEOUT, Stage, wait_for};

use crate::mpi::Mpi;
use crate::play::must;
use crate::random_scenario::{Kind, RandomScenario};
use crate::running::{self, Done};

pub(crate) enum Ranks<'s> {
    OfLab(Job),
    OfMpi(Mpi<'s>),
}

impl<'s> Ranks<'s> {
    pub(crate) fn start(stage: &'s Stage, random: &RandomScenario) -> Self {
        match random.kind {
            Kind::Mpi => Self::OfMpi(Mpi::start(stage, &random.hostfile(), &random.program())),
            Kind::Streams | Kind::Ring => Self::OfLab(must(stage.job("train"))),
        }
    }

    /// Once there were this many more iterations.
    pub(crate) fn after(&mut self, more: usize) -> Done {
        let mpi = match self {
            Self::OfLab(job) => return running::after(job, more),
            Self::OfMpi(mpi) => mpi,
        };
        let first = last_line(mpi);
        must(wait_for("the program goes on", STAGE_TIMEOUT, || {
            assert!(!mpi.looked_after(), "it has ended");
            Ok(last_line(mpi).filter(|done| done.is_after(first, more)))
        }))
    }

    /// They have come through all of it.
    pub(crate) fn stop(mut self) {
        self.after(1);
        if let Self::OfLab(job) = self {
            assert!(must(job.stop()).kept_all_sessions());
        }
    }
}

/// Of each iteration the first rank prints how many there were, and what they took together.
fn last_line(mpi: &Mpi<'_>) -> Option<Done> {
    let said = mpi.said();
    let (whole, _) = said.rsplit_once('\n')?;
    let (count, took_ms) = whole.lines().last()?.split_once(' ')?;
    Some(Done::new(count.parse().ok()?, took_ms.parse().ok()?))
}
