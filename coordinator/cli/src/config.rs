//! `reweave config`: checks settings by running the coordinator program, which owns them.

use std::env;
use std::path::PathBuf;
use std::process::{self, ExitCode};

use clap::Subcommand;

use crate::error::CliError;

#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Check whether a coordinator would start with these settings, and list what is wrong
    Check {
        /// Settings file [default: /etc/reweave/coordinator.toml, if it exists]
        file: Option<PathBuf>,
    },
}

impl Config {
    pub(crate) fn run(&self) -> Result<ExitCode, CliError> {
        let Self::Check { file } = self;
        let program = beside("reweave-coordinator");
        let mut check = process::Command::new(&program);
        check.arg("check");
        if let Some(file) = file {
            check.arg("--config").arg(file);
        }
        let status = check.status();
        let status = status.map_err(|source| CliError::Program { program, source })?;
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
    }
}

/// Returns the program beside this one, which is of the same build, else the one on the path.
pub(crate) fn beside(name: &str) -> PathBuf {
    let beside = env::current_exe().ok();
    let beside = beside.map(|this| this.with_file_name(name));
    let beside = beside.filter(|program| program.exists());
    beside.unwrap_or_else(|| PathBuf::from(name))
}
