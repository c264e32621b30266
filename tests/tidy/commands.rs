//! docs/commands.md is made of the programs themselves: each has a chapter, which a test beside its `main` compares.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use clap::{Arg, Command, Id};

const COMMANDS_PAGE_PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/TREE/docs/commands.md");
const WRITE_VARIABLE: &str = "REWEAVE_WRITE_COMMANDS";

/// Holds the chapter against the program, or rewrites it. `to_tree` leads from the package to the tree.
pub(crate) fn arguments_are_documented(program: Command, to_tree: &str) {
    let page = COMMANDS_PAGE_PATH.replace("TREE", to_tree);
    let text = fs::read_to_string(&page).expect("docs/commands.md is there");
    let name = program.get_name().to_owned();
    let made = chapter(program);
    let there = place(&text, &name).unwrap_or_else(|| panic!("docs/commands.md has no # {name}"));
    if std::env::var_os(WRITE_VARIABLE).is_some() {
        let rewritten = text.replacen(there, &made, 1);
        fs::write(Path::new(&page), rewritten).expect("the page can be written");
        return;
    }
    let differs = made
        .lines()
        .zip(there.lines())
        .find(|(made, there)| made != there);
    assert!(
        made == there,
        "docs/commands.md is not what {name} takes, from {differs:?} on; \
         {WRITE_VARIABLE}=1 cargo test --workspace --bins command_docs_match_cli writes it"
    );
}

/// From a program's headline to the next program's.
fn place<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let headline = format!("\n# {name}\n");
    let from = text.find(&headline)? + 1;
    let rest = text.get(from..)?;
    let end = rest.find("\n# ").map_or(rest.len(), |end| end + 1);
    rest.get(..end)
}

fn chapter(mut program: Command) -> String {
    program.build();
    let mut text = format!("# {}\n\n{}\n", program.get_name(), about(&program));
    let all = program.get_arguments().filter(|it| is_reported(it));
    table(&mut text, &mut all.peekable());
    let everywhere: Vec<_> = program.get_arguments().map(Arg::get_id).cloned().collect();
    for command in program.get_subcommands_mut() {
        section(&mut text, command, &everywhere);
    }
    text.push('\n');
    text
}

/// A command that does something, or those below it, after what all of these take.
fn section(text: &mut String, command: &mut Command, known: &[Id]) {
    if command.is_hide_set() || command.get_name() == "help" {
        return;
    }
    if command.has_subcommands() {
        let shared = command.get_arguments().filter(|it| it.is_global_set());
        let shared: Vec<_> = shared
            .filter(|it| is_reported(it) && !known.contains(it.get_id()))
            .cloned()
            .collect();
        if !shared.is_empty() {
            let name = command.get_bin_name().unwrap_or(command.get_name());
            let _ = write!(text, "\n## {name}\n\nAll of these take:\n");
            table(text, &mut shared.iter().peekable());
        }
        let shared = shared.iter().map(Arg::get_id).cloned();
        let known: Vec<_> = known.iter().cloned().chain(shared).collect();
        command
            .get_subcommands_mut()
            .for_each(|it| section(text, it, &known));
        if command.is_subcommand_required_set() {
            return;
        }
    }
    let usage = command.render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    let usage: Vec<_> = usage.lines().map(str::trim).collect();
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let _ = write!(
        text,
        "\n## {name}\n\n    {}\n\n{}\n",
        usage.join("\n    "),
        about(command)
    );
    let own = command.get_arguments().filter(|it| !it.is_global_set());
    table(text, &mut own.filter(|it| is_reported(it)).peekable());
}

fn is_reported(arg: &Arg) -> bool {
    !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str())
}

fn table<'a>(text: &mut String, args: &mut std::iter::Peekable<impl Iterator<Item = &'a Arg>>) {
    if args.peek().is_some() {
        text.push_str("\n| argument | what it is |\n|---|---|\n");
    }
    for arg in args {
        let _ = writeln!(text, "| `{}` | {} |", escaped(&name(arg)), what(arg));
    }
}

fn about(command: &Command) -> String {
    let about = command.get_long_about().or(command.get_about());
    about.map(ToString::to_string).unwrap_or_default()
}

fn name(arg: &Arg) -> String {
    let values = arg.get_value_names().unwrap_or_default();
    let values: Vec<_> = values.iter().map(clap::builder::Str::as_str).collect();
    let takes = arg.get_action().takes_values();
    let values = if takes {
        values.join(" ")
    } else {
        String::new()
    };
    let flag = match (arg.get_long(), arg.get_short()) {
        (Some(long), _) => format!("--{long}"),
        (None, Some(short)) => format!("-{short}"),
        (None, None) => return values,
    };
    format!("{flag} {values}").trim_end().to_owned()
}

/// Its words, and what stands for it where it is not given.
fn what(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help());
    let mut parts = vec![escaped(&help.map(ToString::to_string).unwrap_or_default())];
    let takes = arg.get_action().takes_values();
    let values = arg.get_possible_values();
    let values: Vec<_> = values
        .iter()
        .filter(|it| takes && !it.is_hide_set())
        .collect();
    let text = values.iter().map(|it| match it.get_help() {
        Some(help) => format!("`{}` ({})", it.get_name(), escaped(&help.to_string())),
        None => format!("`{}`", it.get_name()),
    });
    parts.push(text.collect::<Vec<_>>().join(", "));
    parts.extend(
        arg.get_env()
            .map(|name| format!("from `{}`", name.to_string_lossy())),
    );
    let defaults = arg.get_default_values().iter().filter(|_| takes);
    let defaults: Vec<_> = defaults
        .map(|it| it.to_string_lossy().into_owned())
        .collect();
    if !defaults.is_empty() {
        parts.push(format!("by default `{}`", escaped(&defaults.join(" "))));
    }
    parts.retain(|part| !part.is_empty());
    parts.join("; ")
}

/// As a cell of a table holds it.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
        .replace("\n\n", " ")
        .replace('\n', " ")
}
