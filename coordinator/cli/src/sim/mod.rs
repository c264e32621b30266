//! `reweave sim`: what would be. No cluster is asked.

pub(crate) mod collective;
pub(crate) mod costs;
mod effort;
mod flows;
mod history;
pub(crate) mod input;
mod job;
mod progress;
mod raw;
pub(crate) mod replay;
mod run;
mod show;
pub(crate) mod sweep;
mod trace;
mod variant;

use std::process::ExitCode;

use clap::{Args, CommandFactory, Subcommand};

use crate::Output;
use crate::error::CliError;

/// A question, once or for many settings.
#[derive(Debug, Args)]
pub(crate) struct Simulation {
    #[command(flatten)]
    sweep: sweep::Sweep,
    #[command(subcommand)]
    question: Sim,
}

impl Simulation {
    pub(crate) fn run(&self, output: Output) -> Result<ExitCode, CliError> {
        match self.sweep.is_asked() {
            true => self.sweep.run(&self.question.options(), output),
            false => self.question.run(output),
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Sim {
    /// Play a task graph that TopoOpt or FlexFlow wrote, on the network that it was made for
    Replay(replay::Replay),
    /// What an iteration of a job takes on a fabric, and why
    Job(job::Job),
    /// What recorders wrote down of a job, on a fabric
    Trace(trace::Trace),
    /// How long the hosts of a fabric take to exchange data, and how long they need to
    Collective(collective::Exchange),
    /// Flows between the hosts of a fabric
    Flows(flows::Flows),
    /// Traffic of the past, on another fabric, with other ways or between other hosts
    History(history::History),
    /// All answers of a sweep whose shards were asked elsewhere, in the order of its points
    Gather(sweep::Gather),
    /// Flows over bare links, in the format for comparison with other simulators
    Raw(raw::Raw),
}

impl Sim {
    /// The long names of the options that this question knows.
    fn options(&self) -> Vec<String> {
        let name = match self {
            Self::Replay(_) => "replay",
            Self::Job(_) => "job",
            Self::Trace(_) => "trace",
            Self::Collective(_) => "collective",
            Self::Flows(_) => "flows",
            Self::History(_) => "history",
            Self::Gather(_) => "gather",
            Self::Raw(_) => "raw",
        };
        let program = crate::Arguments::command();
        let sim = program.find_subcommand("sim");
        let question = sim.and_then(|sim| sim.find_subcommand(name));
        let arguments = question.into_iter().flat_map(clap::Command::get_arguments);
        let names = arguments.filter_map(|argument| argument.get_long());
        names.map(str::to_owned).collect()
    }

    fn run(&self, output: Output) -> Result<ExitCode, CliError> {
        match self {
            Self::Replay(replay) => replay.run(output),
            Self::Job(job) => job.run(output),
            Self::Trace(trace) => trace.run(output),
            Self::Collective(exchange) => exchange.run(output),
            Self::Flows(flows) => flows.run(output),
            Self::History(history) => history.run(output),
            Self::Gather(gather) => gather.run(output),
            Self::Raw(raw) => raw.run(output),
        }
    }
}

/// Units of work that one simulation may take: a quarter of an hour on a slow core.
pub(crate) const MOST_WORK: u64 = 1 << 40;
