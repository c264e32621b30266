//! `reweave sim`: what would happen, without a cluster.

mod costs;
mod effort;
mod flows;
mod input;
mod raw;

use std::process::ExitCode;

use clap::Subcommand;

use crate::Output;
use crate::error::CliError;

#[derive(Debug, Subcommand)]
pub(crate) enum Sim {
    /// Flows over bare links, in the format for comparison with other simulators
    Raw(raw::Raw),
    /// Flows between the hosts of a fabric
    Flows(flows::Flows),
}

impl Sim {
    pub(crate) fn run(&self, output: Output) -> Result<ExitCode, CliError> {
        match self {
            Self::Raw(raw) => raw.run(output),
            Self::Flows(flows) => flows.run(output),
        }
    }
}
