//! The driver of optical switches.

#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "they panic when their reader is gone"
)]

mod cli;
mod voice;

use std::process::ExitCode;

use clap::Parser;
use reweave_common::error::error_chain;

fn main() -> ExitCode {
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(said) => return voice::instead(&said),
    };
    let logs_json = cli.logs_json();
    cli.run().unwrap_or_else(|error| {
        let words = error_chain(&error);
        if logs_json {
            tracing::error!("{words}");
        } else {
            voice::tell(format_args!("error: {words}"));
        }
        ExitCode::from(error.exit_code())
    })
}
