//! `reweave rollback`: puts on offer that everything is as it was before a change.

use std::process::ExitCode;

use clap::Args;
use reweave_common::operator::Request;
use reweave_common::plan::Generation;

use crate::Output;
use crate::apply::number;
use crate::ask::Reach;
use crate::error::CliError;

/// Plan to take back a change that was kept
///
/// What takes a change back that was kept: the last one, or that of this number, if nothing stands on it
///
/// It is a plan like any other: judged, shown, and carried out by `reweave apply`, while jobs run. Where flows
/// become slower by it, it is kept only with `reweave apply N --force`.
#[derive(Debug, Args)]
pub(crate) struct Rollback {
    /// The plan by which the change was made; `reweave history` lists them
    #[arg(value_name = "N", value_parser = number)]
    generation: Option<u64>,
}

impl Rollback {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let generation = self.generation.map(Generation);
        crate::show(reach, output, &Request::TakeBack { generation })
    }
}
