//! `reweave --help`: commands grouped under headings by purpose.

use std::fmt::Write as _;

use clap::Command;

/// Every command once, in the order of a first use.
const GROUPS: [(&str, &[&str]); 5] = [
    (
        "Look",
        &[
            "status",
            "top",
            "watch",
            "hosts",
            "links",
            "paths",
            "jobs",
            "pairs",
            "matrix",
            "traffic",
            "fim",
            "trace",
            "diagnose",
            "explain",
            "history",
            "audit",
            "dashboard",
        ],
    ),
    (
        "Change",
        &[
            "plan",
            "diff",
            "apply",
            "approve",
            "hold",
            "resume",
            "abort",
            "rollback",
            "maintenance",
            "policy",
        ],
    ),
    ("Run jobs", &["run", "job"]),
    ("Plan offline", &["sim", "check", "export"]),
    (
        "Set up",
        &[
            "cluster",
            "context",
            "config",
            "discover",
            "dev",
            "version",
            "completions",
            "man",
        ],
    ),
];

/// Puts the groups into clap's template, because clap has no headings for commands.
pub(crate) fn grouped(command: Command) -> Command {
    let commands = commands(&command);
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{commands}`reweave help COMMAND` \
         describes a command.\n\nOptions:\n{{options}}"
    ))
}

fn commands(command: &Command) -> String {
    let mut text = String::new();
    for (heading, names) in GROUPS {
        let _ = writeln!(text, "{heading}:");
        for name in names {
            let _ = writeln!(text, "  {name:<13}{}", summary(command, name));
        }
        text.push('\n');
    }
    text
}

fn summary(command: &Command, name: &str) -> String {
    let about = command.find_subcommand(name).and_then(Command::get_about);
    about.map(ToString::to_string).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ffi::OsString;

    use clap::CommandFactory as _;

    use super::*;
    use crate::Arguments;

    const MAX_SUMMARY_CHARS: usize = 59;

    #[test]
    fn every_command_stands_in_one_group() {
        let program = Arguments::command();
        let commands: BTreeSet<_> = program.get_subcommands().map(Command::get_name).collect();
        let listed: Vec<_> = GROUPS.iter().flat_map(|(_, names)| *names).collect();
        let once: BTreeSet<_> = listed.iter().map(|name| **name).collect();
        assert_eq!(once, commands);
        assert_eq!(listed.len(), once.len(), "{listed:?}");
    }

    #[test]
    fn summaries_are_short_and_plain() {
        let program = Arguments::command();
        for name in GROUPS.iter().flat_map(|(_, names)| *names) {
            let summary = summary(&program, name);
            let length = summary.chars().count();
            assert!(
                (1..=MAX_SUMMARY_CHARS).contains(&length),
                "{name}: {summary}"
            );
            // Clap reads braces as tags of the template.
            assert!(!summary.contains(['{', '}', '\n']), "{name}: {summary}");
        }
    }

    #[test]
    fn help_shows_groups_and_options() {
        let words = ["reweave", "--help"].map(OsString::from);
        let help = crate::parsed(words.into_iter()).unwrap_err().to_string();
        let mut last = 0;
        for part in [
            "Usage: reweave",
            "\nLook:\n  status       Show",
            "\nChange:\n  plan ",
            "\nRun jobs:\n",
            "\nPlan offline:\n",
            "\nSet up:\n",
            "\nOptions:\n",
            "--coordinator",
        ] {
            let at = help.find(part);
            assert!(at.is_some_and(|at| at >= last), "{part}: {help}");
            last = at.unwrap_or(last);
        }
        assert_eq!(help.matches("\n  status ").count(), 1, "{help}");
    }
}
