//! `reweave plan weights`: puts routes on offer by which equal ways get what they are worth.

use std::process::ExitCode;

use clap::Args;
use reweave_common::operator::Request;

use crate::Output;
use crate::ask::Reach;
use crate::error::CliError;
use crate::kept::Keep;

/// How much of what switches send each of several equal ways gets: what it is worth; with --none, all the same
///
/// It is judged, shown, and carried out by `reweave apply`, while jobs run. Links that are drained stay so.
#[derive(Debug, Args)]
pub(crate) struct Weights {
    /// All equal ways get the same again
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
