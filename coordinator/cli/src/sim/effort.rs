//! Work limit of a simulation, and its progress line.

use clap::Args;
use reweave_sim::engine::{self, Outcome, Problem, SimError};
use reweave_sim::workload::SimulationError;

use super::progress::Progress;
use crate::error::CliError;

#[derive(Debug, Clone, Args)]
pub(crate) struct Effort {
    /// Maximum units of work (links visited; a core visits some 20 million per second)
    #[arg(long, value_name = "UNITS", default_value_t = 20_000_000_000)]
    work_limit: u64,
}

impl Effort {
    pub(super) fn limit(&self) -> u64 {
        self.work_limit
    }

    /// Returns the outcome and the time of the simulation in milliseconds.
    pub(super) fn simulate(&self, problem: &Problem) -> Result<(Outcome, f64), CliError> {
        let mut progress = Progress::begin("tasks");
        let outcome = engine::watched(problem, self.work_limit, &mut |at| {
            progress.see(at);
            true
        });
        let wall_ms = progress.end();
        Ok((outcome.map_err(failed)?, wall_ms))
    }
}

fn failed(error: SimError) -> CliError {
    CliError::Simulation(SimulationError::Course(error))
}
