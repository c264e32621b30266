//! `reweave completions` and `reweave man`: shell completions and manual pages, generated from the commands.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, Subcommand};
use clap_complete::Shell;

use crate::error::CliError;
use crate::{Arguments, print_data};

#[derive(Debug, Subcommand)]
pub(crate) enum Manual {
    /// Print a completion script for a shell
    ///
    /// For one session: `source <(reweave completions bash)`.
    Completions { shell: Shell },
    /// Write the manual pages into a folder
    ///
    /// One page per command, for `man`.
    Man {
        /// Output folder
        #[arg(long, value_name = "DIR")]
        into: PathBuf,
    },
}

impl Manual {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Completions { .. } => "completions",
            Self::Man { .. } => "man",
        }
    }

    pub(crate) fn run(&self) -> Result<ExitCode, CliError> {
        match self {
            Self::Completions { shell } => complete(*shell),
            Self::Man { into } => {
                let written = |source| CliError::Manual {
                    folder: into.clone(),
                    source,
                };
                fs::create_dir_all(into).map_err(written)?;
                clap_mangen::generate_to(Arguments::command(), into).map_err(written)?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

fn complete(shell: Shell) -> Result<ExitCode, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "reweave", &mut script);
    print_data(&String::from_utf8_lossy(&script))
}

#[cfg(test)]
#[path = "../../../tests/tidy/commands.rs"]
mod commands;

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn command_docs_match_cli() {
        super::commands::arguments_are_documented(super::Arguments::command(), "../..");
    }
}
