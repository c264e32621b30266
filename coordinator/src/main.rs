//! The program that leads a cluster: it hears agents and operators, lets the core decide, and
//! carries out what it decides.
//!
//! One thread owns the core and feeds it one input after the other; everything else here only
//! brings inputs to it or takes effects from it. Nothing in this package decides about routes.

mod clock;
mod config;
mod data;
mod door;
mod drive;
mod error;
mod house;
mod http;
mod intake;
mod log;
mod recorder;
mod replay;
mod run;
mod sessions;
mod signing;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

use config::Settings;
use error::told;

/// Leads a cluster: hears its agents, plans, checks, carries out and verifies
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// How to write the log, to standard error
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
        let log = tracing_subscriber::fmt().with_writer(std::io::stderr);
        match self {
            Self::Text => log.with_target(false).without_time().init(),
            Self::Json => log.json().init(),
        }
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Leads until told to end; goes on where it ended when it is started again
    Run(Settings),
    /// Says whether `run` would start with these settings, and where it would find what
    Check(Settings),
    /// Lives through a recorded run again, prints its effects and compares them with those recorded
    Replay {
        /// What `run --record` wrote
        recording: PathBuf,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    arguments.log.start();
    let outcome = match arguments.command {
        Command::Run(settings) => run::run(&settings),
        Command::Check(settings) => settings.check(),
        Command::Replay { recording } => replay::replay(&recording),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", told(&error));
            ExitCode::from(error.exit_code())
        }
    }
}
