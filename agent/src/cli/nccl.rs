//! `nccl`: shows and changes NCCL's settings on this host.

use std::io::{self, Read as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use reweave_agent::error::AgentError;
use reweave_agent::nccl_conf::{Conf, Variables};
use reweave_common::exit_code;

use super::out;

/// Maximum size of the input, far more than all variables.
const MAX_INPUT_BYTES: u64 = 1 << 16;

#[derive(Debug, Args)]
pub(crate) struct OnNccl {
    /// NCCL configuration file, read when a job starts
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/etc/nccl.conf",
        global = true
    )]
    file: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the file as `apply` would write it from standard input (`reweave export nccl`), without a change
    Check {
        /// Exit with 3 if the file would change
        #[arg(long)]
        detailed_exitcode: bool,
    },
    /// Write standard input (`reweave export nccl`) into a block of its own
    ///
    /// Jobs that start later read it. Lines of other tools stay; a variable that is already set there is refused.
    Apply,
    /// Remove the block
    Revert,
}

impl OnNccl {
    pub(crate) fn run(&self) -> Result<ExitCode, AgentError> {
        let conf = Conf::read(&self.file)?;
        let text = match &self.command {
            Command::Check { .. } => conf.with(&given()?)?,
            Command::Apply => conf.apply(&given()?)?,
            Command::Revert => conf.revert()?,
        };
        text.lines().for_each(out::line);
        let asks =
            matches!(self.command, Command::Check { detailed_exitcode } if detailed_exitcode);
        Ok(if asks && text != conf.text() {
            ExitCode::from(exit_code::FOUND)
        } else {
            ExitCode::SUCCESS
        })
    }
}

fn given() -> Result<Variables, AgentError> {
    let mut text = String::new();
    let read = io::stdin().take(MAX_INPUT_BYTES).read_to_string(&mut text);
    read.map_err(|source| AgentError::Input { source })?;
    Ok(Variables::parse(&text)?)
}
