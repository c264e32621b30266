//! `--output`: how an answer is printed, and which commands cannot print it so.

use clap::ValueEnum;

use crate::Command;
use crate::cluster::Cluster;
use crate::context::ContextCommand;
use crate::coordinators::Coordinators;
use crate::error::CliError;
use crate::job::Job;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people
    Table,
    /// Table with more columns: only `hosts`, `links`, `paths`, `jobs`, `policy show` and `cluster member list`
    Wide,
    /// One JSON object, for scripts
    Json,
    /// YAML with the same content
    Yaml,
    /// One name per line: only lists of things that other commands take by name
    Name,
    /// One line per host, for mpirun: only `plan ranks` and `job gate`
    Hostfile,
    /// CSV table: only `pairs`
    Csv,
}

impl Output {
    /// Asked before anything is done: an error after an order was carried out would deny it.
    pub(crate) fn check(self, command: &Command) -> Result<(), CliError> {
        match self {
            Self::Json | Self::Yaml => match text_only(command) {
                Some(name) => Err(CliError::TextOnly { name }),
                None => Ok(()),
            },
            Self::Wide if !has_more_columns(command) => Err(CliError::NoMoreColumns),
            Self::Name if !lists_names(command) => Err(CliError::NoNames),
            Self::Hostfile if !prints_hostfile(command) => Err(CliError::NoHostfile),
            Self::Csv if !matches!(command, Command::Pairs(_)) => Err(CliError::NoCsv),
            Self::Table | Self::Wide | Self::Name | Self::Hostfile | Self::Csv => Ok(()),
        }
    }

    /// What stands before each of several answers of a command.
    pub(crate) fn separator(self) -> &'static str {
        match self {
            Self::Yaml => "---\n",
            _ => "",
        }
    }
}

/// The name of a command that prints one text, or what another program prints.
fn text_only(command: &Command) -> Option<&'static str> {
    match command {
        Command::Config(_) => Some("config check"),
        Command::Dev(_) => Some("dev"),
        Command::Run(_) => Some("run"),
        Command::Top(_) => Some("top"),
        Command::Export(_) => Some("export"),
        Command::Manual(manual) => Some(manual.name()),
        _ => None,
    }
}

fn has_more_columns(command: &Command) -> bool {
    match command {
        Command::Hosts(_) | Command::Links(_) | Command::Paths(_) | Command::Jobs(_) => true,
        Command::Policy(policy) => policy.is_show(),
        other => lists_members(other),
    }
}

/// Names are those of nodes, links, flows, jobs, plans, settings, coordinators and contexts.
fn lists_names(command: &Command) -> bool {
    match command {
        Command::History { .. } | Command::Context(ContextCommand::List) => true,
        Command::Maintenance(maintenance) => maintenance.is_list(),
        other => has_more_columns(other),
    }
}

fn lists_members(command: &Command) -> bool {
    matches!(
        command,
        Command::Cluster(Cluster::Member(Coordinators::List))
    )
}

fn prints_hostfile(command: &Command) -> bool {
    match command {
        Command::Plan(plan) => plan.is_of_ranks(),
        Command::Job(job) => matches!(job, Job::Gate(_)),
        _ => false,
    }
}

#[cfg(test)]
#[path = "../tests/json/offline_commands.rs"]
mod offline_commands;

#[cfg(test)]
#[path = "../tests/json/session_commands.rs"]
mod session_commands;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ffi::OsString;

    use clap::{ArgMatches, CommandFactory as _};

    use super::offline_commands::OFFLINE_JSON_COMMANDS;
    use super::session_commands::SESSION_COMMANDS;
    use crate::Arguments;

    /// A line of each command without JSON, and its name in the error.
    const TEXT_ONLY: [(&str, &str); 7] = [
        ("config check", "config check"),
        ("dev", "dev"),
        ("run -- true", "run"),
        ("top", "top"),
        ("export kubernetes --fabric f.toml", "export"),
        ("completions bash", "completions"),
        ("man --into man1", "man"),
    ];

    /// Commands with JSON that are not run to see its first field, and the reason.
    const NOT_RUN: [(&str, &str); 9] = [
        ("check", "it reads a plan that a coordinator has offered"),
        (
            "cluster join",
            "a join listener answers it, over no session",
        ),
        ("plan repair", "it reads a designed topology"),
        ("plan shard", "it reads a cluster file with several jobs"),
        ("sim gather", "it reads shards: the test of sweeps runs it"),
        ("sim history", "it reads a recorded history"),
        ("sim replay", "it reads a binary graph of another simulator"),
        ("sim trace", "it reads recorded traces"),
        ("watch", "only a signal ends it: a unit test has its events"),
    ];

    /// The names of all commands that can be run.
    fn runnable(command: &clap::Command, name: &str) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for below in command.get_subcommands() {
            let name = format!("{name} {}", below.get_name());
            all.extend(runnable(below, name.trim_start()));
        }
        if !command.is_subcommand_required_set() {
            all.insert(name.to_owned());
        }
        all
    }

    /// The name of the command that a line runs.
    fn name_of(line: &str) -> String {
        let words = ["reweave"].into_iter().chain(line.split(' '));
        let mut matches: ArgMatches = Arguments::command().try_get_matches_from(words).unwrap();
        let mut names = Vec::new();
        while let Some((name, below)) = matches.remove_subcommand() {
            names.push(name);
            matches = below;
        }
        names.join(" ")
    }

    fn is_text_only(name: &str) -> bool {
        let first = |text: &str| text.split(' ').next().map(str::to_owned);
        TEXT_ONLY.iter().any(|(line, _)| first(line) == first(name))
    }

    /// The tests of their first field run them: a new command belongs into one of the lists.
    #[test]
    fn json_commands_are_run_or_excepted() {
        let mut expected = runnable(&Arguments::command(), "");
        expected.retain(|name| !is_text_only(name));
        let lines = SESSION_COMMANDS.iter().chain(&OFFLINE_JSON_COMMANDS);
        let run: BTreeSet<_> = lines.map(|line| name_of(line)).collect();
        let not_run = NOT_RUN.iter().map(|(name, _)| (*name).to_owned());
        let not_run: BTreeSet<_> = not_run.collect();
        assert_eq!(&run | &not_run, expected);
        let both: Vec<_> = run.intersection(&not_run).collect();
        assert!(both.is_empty(), "{both:?} are run, and excepted");
    }

    fn refusal(words: &str) -> Option<String> {
        let words = ["reweave"].into_iter().chain(words.split(' '));
        let arguments = crate::parsed(words.map(OsString::from)).unwrap();
        let error = arguments.output.check(&arguments.command).err()?;
        assert_eq!(error.exit_code(), 2);
        Some(error.error_chain())
    }

    #[test]
    fn commands_without_json_refuse_json_output() {
        for (words, name) in TEXT_ONLY {
            assert_eq!(refusal(words), None, "{words}");
            for form in ["json", "yaml"] {
                let said = refusal(&format!("--output {form} {words}"));
                let expected =
                    format!("`reweave {name}` prints neither JSON nor YAML: leave --output out");
                assert_eq!(said, Some(expected), "{words}");
            }
        }
        assert_eq!(refusal("--output json status"), None);
    }

    #[test]
    fn other_forms_are_refused_before_orders() {
        let orders = refusal("--output hostfile apply 7");
        assert!(orders.is_some_and(|said| said.contains("a hostfile")));
        assert!(refusal("--output csv rollback").is_some_and(|said| said.contains("CSV")));
        for words in [
            "--output hostfile job gate --hosts h0",
            "--output hostfile plan ranks --job j.toml",
            "--output csv pairs",
        ] {
            assert_eq!(refusal(words), None, "{words}");
        }
    }

    #[test]
    fn only_lists_print_names() {
        for words in [
            "hosts",
            "links",
            "paths",
            "jobs",
            "history",
            "maintenance",
            "policy show",
            "cluster member list",
            "context list",
        ] {
            assert_eq!(refusal(&format!("{words} -o name")), None, "{words}");
        }
        for words in [
            "status",
            "top",
            "apply 7",
            "maintenance spine0 --finish",
            "policy reset mode",
            "cluster member remove c1",
            "sim raw f.raw",
        ] {
            let said = refusal(&format!("-o name {words}")).unwrap_or_default();
            assert!(
                said.starts_with("only lists print names"),
                "{words}: {said}"
            );
        }
    }

    #[test]
    fn wide_needs_more_columns() {
        for words in [
            "hosts",
            "links",
            "paths",
            "jobs",
            "policy show",
            "cluster member list",
        ] {
            assert_eq!(refusal(&format!("{words} -o wide")), None, "{words}");
        }
        for words in [
            "history",
            "status",
            "maintenance",
            "pairs",
            "policy set mode=auto",
            "run -- true",
        ] {
            let said = refusal(&format!("-o wide {words}")).unwrap_or_default();
            assert!(said.contains("have more columns"), "{words}: {said}");
        }
    }

    #[test]
    fn short_option_is_output_format() {
        assert_eq!(refusal("-o json plan --out plan.json"), None);
        assert_eq!(refusal("plan -ojson"), None);
        let file = ["reweave", "plan", "-o", "plan.json"].map(OsString::from);
        let said = crate::parsed(file.into_iter()).unwrap_err();
        assert_eq!(said.exit_code(), 2);
        assert!(said.to_string().contains("invalid value 'plan.json'"));
    }
}
