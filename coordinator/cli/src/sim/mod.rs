//! `reweave sim`: simulations. They ask no cluster.

mod abreast;
pub(crate) mod collective;
pub(crate) mod costs;
mod effort;
mod flows;
mod history;
pub(crate) mod input;
mod job;
mod measured;
mod past;
mod progress;
mod raw;
pub(crate) mod replay;
mod run;
mod show;
pub(crate) mod sweep;
mod trace;
mod variants;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, Args, CommandFactory, Subcommand, value_parser};

use crate::Output;
use crate::error::CliError;

/// A simulation, once or for many settings.
#[derive(Debug, Args)]
#[command(
    arg = elsewhere("coordinator"),
    arg = elsewhere("context"),
    arg = elsewhere("identity").value_parser(value_parser!(PathBuf))
)]
pub(crate) struct Simulation {
    #[command(flatten)]
    sweep: sweep::Sweep,
    #[command(subcommand)]
    question: Sim,
}

/// Returns a hidden global option that has no meaning here, so that it is accepted before any command.
fn elsewhere(name: &'static str) -> Arg {
    Arg::new(name).long(name).global(true).hide(true)
}

impl Simulation {
    pub(crate) fn run(&self, output: Output) -> Result<ExitCode, CliError> {
        if self.sweep.is_asked() {
            self.sweep.run(&self.question.options(), output)
        } else {
            self.question.run(output)
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Sim {
    /// Play a task graph of TopoOpt or FlexFlow on the network that it was made for
    Replay(replay::Replay),
    /// Iteration time of a job on a fabric, and its causes
    Job(job::Job),
    /// Replay recorded traces of a job on a fabric
    Trace(trace::Trace),
    /// Time of a collective between the hosts of a fabric, and its lower bound
    Collective(collective::Exchange),
    /// Flows between the hosts of a fabric
    Flows(flows::Flows),
    /// Replay past traffic on another fabric, with other paths or between other hosts
    History(history::History),
    /// Merge the shards of a sweep, in the order of its points
    Gather(sweep::Gather),
    /// Flows over bare links, in the format for comparison with other simulators
    Raw(raw::Raw),
}

impl Sim {
    /// Returns the long names of the options of this simulation.
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

/// Maximum units of work of one simulation: a quarter of an hour on a slow core.
pub(crate) const MAX_SIMULATION_WORK: u64 = 1 << 40;

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use crate::Arguments;

    #[test]
    fn help_hides_meaningless_options() {
        let mut program = Arguments::command();
        program.build();
        let sim = program.find_subcommand_mut("sim").unwrap();
        let own = sim.render_long_help().to_string();
        let questions = sim
            .get_subcommands_mut()
            .filter(|it| it.get_name() != "help");
        let of_questions = questions.map(|it| it.render_long_help().to_string());
        for help in of_questions.chain([own]) {
            assert!(
                help.contains("--sweep") && help.contains("--output"),
                "{help}"
            );
            assert!(!help.contains("--coordinator"), "{help}");
            assert!(!help.contains("--identity"), "{help}");
            assert!(!help.contains("--context"), "{help}");
        }
    }

    #[test]
    fn offline_commands_accept_coordinator_option() {
        for words in [
            "--coordinator a sim raw F",
            "sim --coordinator a raw F",
            "sim raw F --identity D",
            "sim raw F --context lab",
        ] {
            let words = ["reweave"].into_iter().chain(words.split(' '));
            <Arguments as clap::Parser>::try_parse_from(words).unwrap();
        }
    }
}
