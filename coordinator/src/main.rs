//! The coordinator: receives reports and requests, lets the core decide, and executes its decisions.
//!
//! One thread owns the core and feeds it one input after the other. Another keeps the log and agrees on it with other
//! coordinators. Everything else brings inputs to them or takes effects from them. Nothing in this package decides
//! about routes.

#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "they panic when their reader is gone"
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

use clap::{CommandFactory as _, Parser, Subcommand};
use reweave_common::error::error_chain;
use reweave_common::printable::shown;
use reweave_link::log::LogOptions;

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
    #[command(flatten)]
    log: LogOptions,
    #[command(subcommand)]
    command: Command,
}

/// The last that is logged.
fn end(log: &LogOptions, error: &CoordinatorError) {
    // Words of files and of the command line may be in it.
    let error = shown(&error_chain(error), |_| false).to_string();
    if log.is_json() {
        tracing::error!("{error}");
    } else {
        voice::print_note(format_args!("error: {error}"));
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
    /// Print the measurements that the history keeps, with or without a running coordinator
    #[command(alias = "history")]
    Measurements(history::ShowOptions),
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
        Command::Measurements(asked) => history::show(&asked),
        Command::Check(settings) => settings.check(),
        Command::Replay { recording } => replay::replay(&recording),
        Command::Man { into } => manual(into),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            end(&arguments.log, &error);
            ExitCode::from(error.exit_code())
        }
    }
}

fn manual(folder: PathBuf) -> Result<(), CoordinatorError> {
    let written = fs::create_dir_all(&folder);
    let written = written.and_then(|()| clap_mangen::generate_to(Arguments::command(), &folder));
    written.map_err(|source| CoordinatorError::Manual { folder, source })
}
