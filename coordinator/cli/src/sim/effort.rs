//! How much a simulation may take, and a word now and then for who waits.

use clap::Args;
use reweave_planner::sim::{Outcome, Problem, Run, SimError};
use reweave_planner::workload::{self, SimulationError};

use super::progress::Progress;
use crate::error::CliError;

const STEPS_BETWEEN_LOOKS: u32 = 256;

#[derive(Debug, Clone, Args)]
pub(crate) struct Effort {
    /// Give up after so many units of work (links looked at; a core looks at some 20 million a second)
    #[arg(long, value_name = "UNITS", default_value_t = 20_000_000_000)]
    work_limit: u64,
}

impl Effort {
    pub(super) fn limit(&self) -> u64 {
        self.work_limit
    }

    /// The outcome, and in how many milliseconds it was found.
    pub(super) fn simulate(&self, problem: &Problem) -> Result<(Outcome, f64), CliError> {
        let mut progress = Progress::begin();
        let outcome = self.watched(problem, &mut progress);
        let wall_ms = progress.end();
        Ok((outcome.map_err(failed)?, wall_ms))
    }

    fn watched(&self, problem: &Problem, progress: &mut Progress) -> Result<Outcome, SimError> {
        let mut run = Run::new(problem, self.work_limit)?;
        while some_steps(&mut run)? {
            progress.see(workload::Progress {
                done: run.done(),
                tasks: problem.tasks(),
            });
        }
        run.finish()
    }
}

/// False when there are no more.
fn some_steps(run: &mut Run<'_>) -> Result<bool, SimError> {
    for _ in 0..STEPS_BETWEEN_LOOKS {
        if !run.step()? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn failed(error: SimError) -> CliError {
    CliError::Simulation(SimulationError::Course(error))
}
