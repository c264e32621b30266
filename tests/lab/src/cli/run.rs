//! `reweave-lab run`: a scenario from beginning to end, judged by its own expectations.

use std::path::PathBuf;
use std::time::Instant;

use super::{Output, show};
use crate::error::LabError;
use crate::launch::Launch;
use crate::run;

/// Run a scenario's jobs and faults, and judge what comes out
///
/// Exits with 0 when all expectations are met, with 1 when one is not.
#[derive(Debug, clap::Args)]
pub struct Run {
    /// A scenario file
    scenario: PathBuf,
    /// What to call the lab; by default, the name of the file
    #[arg(long)]
    name: Option<String>,
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

impl Run {
    pub fn run(self) -> Result<u8, LabError> {
        let launch = Launch::prepare(&self.scenario, self.name.as_deref())?;
        let started = Instant::now();
        launch.run(
            || {},
            |inside| {
                let report = run::run(inside.cluster, launch.scenario(), started.elapsed())?;
                show(self.output, &report.text(), &report)?;
                Ok(u8::from(!report.passed))
            },
        )
    }
}
