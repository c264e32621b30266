//! `reweave plan order`: puts another order of a registered job's ranks on offer.

use std::process::ExitCode;

use clap::Args;
use reweave_common::operator::Request;

use crate::Output;
use crate::ask::Reach;
use crate::error::CliError;
use crate::kept::Keep;

/// A better order of a registered job's ranks, which it is told when it starts the next time
///
/// It is shown, and carried out by `reweave apply`; the job that runs goes on as it is.
#[derive(Debug, Args)]
pub(crate) struct Order {
    /// What the job is called
    job: String,
    #[command(flatten)]
    keep: Keep,
}

impl Order {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let job = self.job.clone();
        crate::show_and_keep(reach, output, &Request::Reorder { job }, &self.keep)
    }
}
