//! `reweave plan weights`: offers a plan that weights equal-cost paths by capacity.

use std::process::ExitCode;

use clap::Args;
use reweave_common::operator::Request;

use crate::Output;
use crate::ask::Reach;
use crate::error::CliError;
use crate::kept::Keep;

/// Weight equal-cost paths by their capacity (UCMP); with --none, equally (ECMP)
///
/// The plan is checked and shown; `reweave apply` applies it while jobs run. Drained links stay drained.
#[derive(Debug, Args)]
pub(crate) struct Weights {
    /// Weight all equal-cost paths equally again
    #[arg(long)]
    none: bool,
    #[command(flatten)]
    keep: Keep,
}

impl Weights {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let by_worth = !self.none;
        crate::show_and_keep(reach, output, &Request::Weigh { by_worth }, &self.keep)
    }
}
