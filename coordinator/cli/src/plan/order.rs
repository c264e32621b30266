//! `reweave plan order`: offers a better rank order for a registered job.

use std::process::ExitCode;

use clap::Args;
use reweave_common::operator::Request;

use crate::Output;
use crate::ask::Reach;
use crate::error::CliError;
use crate::kept::Keep;

/// Plan a better rank order for a registered job, used at its next start
///
/// The plan is shown; `reweave apply` applies it. The running job is unchanged.
#[derive(Debug, Args)]
pub(crate) struct Order {
    /// Name of the job
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
