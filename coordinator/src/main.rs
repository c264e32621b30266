//! The coordinator: receives reports and requests, lets the core decide, and executes its decisions.
//!
//! One thread owns the core and feeds it one input after the other. Another keeps the log and agrees on it with other
//! coordinators. Everything else brings inputs to them or takes effects from them. Nothing in this package decides
//! about routes.

#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "they panic when nobody reads any more"
)]

mod archive;
mod audit;
mod bootstrap;
mod clock;
#[cfg(test)]
#[path = "../../tests/tidy/commands.rs"]
mod commands;
mod config;
mod counters;
mod data;
mod decisions;
mod error;
mod event_loop;
mod exclusive_job;
mod hex;
mod history;
mod http;
mod intake;
mod join_listener;
mod listeners;
mod local_health;
mod recorder;
mod replay;
mod replication;
mod run;
mod server_context;
mod service;
mod session_limit;
mod sessions;
mod signing;
#[cfg(test)]
mod tests;
mod traces;
mod voice;
mod warnings;
mod webhooks;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand, ValueEnum};
use reweave_common::error::error_chain;
use reweave_common::printable::shown;

use config::Settings;
use error::CoordinatorError;

/// A report of probes is many small pieces, which come in on one thread and go on another. Without huge
/// pages: with them a hundred sessions take three times the memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Lead a cluster: collect from agents, plan, check, apply and verify
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Format of the log on standard error
    #[arg(long, value_enum, default_value_t = Log::Text, global = true)]
    log: Log,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Log {
    /// For people
    Text,
    /// One JSON object per line, with the time
    Json,
}

impl Log {
    fn start(self) {
        let log = tracing_subscriber::fmt()
            .with_writer(std::io::stderr)
            // It would tell of them where it cannot write, and panic.
            .log_internal_errors(false);
        match self {
            Self::Text => log.with_target(false).without_time().init(),
            Self::Json => log.json().init(),
        }
    }

    /// The last that is said.
    fn end(self, error: &CoordinatorError) {
        // Words of files and of the command line may be in it.
        let error = shown(&error_chain(error), |_| false).to_string();
        match self {
            Self::Text => voice::tell(format_args!("error: {error}")),
            Self::Json => tracing::error!("{error}"),
        }
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run until stopped; a restart continues from the stored state
    Run(Settings),
    /// Check whether `run` would start with these settings, and print what it would use
    Check(Settings),
    /// Replay a recorded run, print its effects and compare them with the recorded ones
    Replay {
        /// What `run --record` wrote
        recording: PathBuf,
    },
    /// Print the history of the cluster, with or without a running coordinator
    History(history::Asked),
    /// Write the manual pages, one per command, into a folder for `man`
    Man {
        /// Output folder
        #[arg(long, value_name = "DIR")]
        into: PathBuf,
    },
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(said) => return voice::instead(&said),
    };
    arguments.log.start();
    let outcome = match arguments.command {
        Command::Run(settings) => run::run(&settings),
        Command::History(asked) => history::show(&asked),
        Command::Check(settings) => settings.check(),
        Command::Replay { recording } => replay::replay(&recording),
        Command::Man { into } => manual(into),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            arguments.log.end(&error);
            ExitCode::from(error.exit_code())
        }
    }
}

fn manual(folder: PathBuf) -> Result<(), CoordinatorError> {
    let written = fs::create_dir_all(&folder);
    let written = written.and_then(|()| clap_mangen::generate_to(Arguments::command(), &folder));
    written.map_err(|source| CoordinatorError::Manual { folder, source })
}
