//! `reweave rollback`: offers a plan that restores the state before a change.

use std::process::ExitCode;

use clap::Args;
use reweave_common::operator::Request;
use reweave_common::plan::Generation;

use crate::Output;
use crate::apply::number;
use crate::ask::Reach;
use crate::error::CliError;

/// Plan to roll back a change that was kept
///
/// Plan to roll back the last change that was kept, or the change with this number if no later change depends on it
///
/// The rollback is a plan like any other: it is checked and shown, and `reweave apply` applies it while jobs run. If
/// flows become slower, it is kept only with `reweave apply N --force`.
#[derive(Debug, Args)]
pub(crate) struct Rollback {
    /// Generation of the change; `reweave history` lists them
    #[arg(value_name = "N", value_parser = number)]
    generation: Option<u64>,
}

impl Rollback {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let generation = self.generation.map(Generation);
        crate::show(reach, output, &Request::TakeBack { generation })
    }
}
