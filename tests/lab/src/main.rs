//! The table of commands.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use reweave_lab::{LabError, cli};

/// A virtual GPU cluster on one Linux machine
#[derive(Parser)]
#[command(name = "reweave-lab", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Up(cli::Up),
    Step(cli::Step),
    Exec(cli::Exec),
    Down(cli::Down),
    List(cli::List),
    Run(cli::Run),
    Job(cli::Job),
    OpticalSwitch(cli::OpticalSwitch),
    /// One rank of a job, started by the lab
    #[command(hide = true)]
    Worker,
    /// A job in a lab that is up, started by `job`
    #[command(hide = true)]
    Conduct,
}

impl Command {
    fn run(self) -> Result<u8, LabError> {
        match self {
            Self::Up(up) => up.run(),
            Self::Step(step) => step.run(),
            Self::Exec(exec) => exec.run(),
            Self::Down(down) => down.run(),
            Self::List(list) => list.run(),
            Self::Run(run) => run.run(),
            Self::Job(job) => job.run(),
            Self::OpticalSwitch(switch) => switch.run(),
            Self::Worker => cli::worker(),
            Self::Conduct => cli::conduct(),
        }
    }
}

fn main() -> ExitCode {
    let code = Arguments::parse().command.run().unwrap_or_else(|error| {
        eprintln!("error: {error}");
        error.exit_code()
    });
    ExitCode::from(code)
}
