//! The program that speaks to optical switches.

mod cli;

use std::process::ExitCode;

use clap::Parser;
use reweave_common::error::told;

fn main() -> ExitCode {
    let outcome = cli::Cli::parse().run();
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {}", told(&error));
        ExitCode::from(error.exit_code())
    })
}
