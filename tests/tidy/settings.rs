//! docs/configuration.md is made of the sample files, which are themselves held to say all there is to set; of what the
//! Ansible role takes; and of the variables that programs and scripts read or set.

use std::fmt::Write;

use crate::tree::TextFile;
use crate::violation::Violation;

const PAGE_HEAD: &str = "\
# Every setting

Made of the sample files in [deploy](../deploy), in which each key stands with its default; `REWEAVE_WRITE_SETTINGS=1 cargo
test --workspace --test tidy settings` rewrites it. Unknown keys and invalid values are errors: both are named
with file and line. `reweave config check` checks a coordinator's file. Options of command lines are
under [commands](commands.md). Options of services are in OPTIONS of `/etc/default/reweave-agent` and
`/etc/default/reweave-driver`.
";

/// By which name, who reads it, and what it is.
const ENVIRONMENT_VARIABLES: [(&str, &str, &str); 15] = [
    (
        "REWEAVE_BUILD_COMMIT",
        "`deploy/packages/build.sh`",
        "no variable of the programs: the commit that `reweave version` shows",
    ),
    (
        "REWEAVE_COORDINATOR",
        "`reweave`",
        "addresses of the coordinators, separated by commas; as `--coordinator`",
    ),
    (
        "REWEAVE_IDENTITY",
        "`reweave`",
        "folder with an operator's certificate; as `--identity`",
    ),
    (
        "REWEAVE_LOG",
        "`reweave-agent`, `reweave-coordinator`, `reweave-driver`",
        "log levels, such as `info,reweave_link=debug`; as `--log`",
    ),
    (
        "REWEAVE_CONTEXT",
        "`reweave`",
        "context with coordinators and identity; as `--context`",
    ),
    (
        "REWEAVE_PAGER",
        "`reweave`",
        "pager for answers longer than the terminal, before `PAGER`; an empty value or `cat` is none",
    ),
    (
        "REWEAVE_HISTORY",
        "`reweave sim history`, `reweave sim job`, `reweave sim trace`",
        "location of the history; as `--history`",
    ),
    (
        "REWEAVE_JOIN",
        "`reweave-agent run`, `reweave-driver run`",
        "join token for the first certificate; as `--join`",
    ),
    (
        "REWEAVE_NCCL_PLUGIN",
        "`reweave run`, Slurm's task prolog",
        "path of NCCL's plugin; an empty value disables it",
    ),
    (
        "REWEAVE_COLLECTIVES",
        "NCCL's plugin",
        "socket of the host's agent, if it is not the default",
    ),
    (
        "REWEAVE_JOB",
        "what `reweave run` starts",
        "name of the job",
    ),
    (
        "REWEAVE_HOSTS",
        "what `reweave run` starts",
        "its hosts in rank order, separated by commas",
    ),
    (
        "REWEAVE_HOSTFILE",
        "what `reweave run` starts",
        "file with the hosts, one per line",
    ),
    (
        "REWEAVE_NODE",
        "the command of `reweave maintenance`",
        "switch under maintenance",
    ),
    (
        "REWEAVE_STATIC_ROUTE",
        "SONiC's database",
        "no variable: the table of marks beside routes that are ours",
    ),
];

/// The page, of each file's name and text, and of the role's argument_specs.yml.
pub(crate) fn page(samples: &[(&str, &str)], role: &str) -> String {
    let mut page = of_files(samples);
    page += "\n## Variables of the environment\n\n| variable | who reads it | what it is |\n|---|---|---|\n";
    for (name, who, what) in ENVIRONMENT_VARIABLES
        .iter()
        .filter(|it| !it.2.starts_with("no variable"))
    {
        let _ = writeln!(page, "| `{name}` | {who} | {what} |");
    }
    page += "\n## Variables of the Ansible role\n\n[Deploying](deploying.md) says how they are given.\n\n";
    page += "| variable | default | what it is |\n|---|---|---|\n";
    page + &of_role(role)
}

fn of_files(samples: &[(&str, &str)]) -> String {
    let mut page = PAGE_HEAD.to_owned();
    for (name, text) in samples {
        let _ = write!(page, "\n## {name}\n");
        let mut in_table = false;
        let mut words = Vec::new();
        for line in text.lines() {
            let line = Line::of(line);
            if !matches!(line, Line::Words(_)) {
                paragraph(&mut page, &mut words);
            }
            if matches!(line, Line::Key { .. }) && !in_table {
                page += "\n| key | default | what it is |\n|---|---|---|\n";
            }
            in_table = matches!(line, Line::Key { .. });
            match line {
                Line::Words(line) => words.push(line),
                Line::Section(section) => page.push_str(&format!("\n### {section}\n")),
                Line::Key { key, value, what } => {
                    page.push_str(&format!("| `{key}` | `{value}` | {what} |\n"));
                }
                Line::Empty => {}
            }
        }
        paragraph(&mut page, &mut words);
    }
    page
}

/// A row for each option of argument_specs.yml, whose names stand six columns in and what is said of them eight.
fn of_role(specs: &str) -> String {
    let mut rows: Vec<(&str, String, &str)> = Vec::new();
    for line in specs.lines() {
        let bare = line.trim_start();
        match (line.len() - bare.len(), rows.last_mut()) {
            (6, _) => rows.push((bare.trim_end_matches(':'), String::new(), "")),
            (8, Some((_, what, default))) => match bare.split_once(':') {
                Some(("description", text)) => what.push_str(text.trim().trim_start_matches(">-")),
                Some(("default", value)) => *default = value.trim(),
                Some(("required", _)) => *default = "must be given",
                _ => {}
            },
            (10, Some((_, what, _))) => *what = format!("{what} {bare}").trim().to_owned(),
            _ => {}
        }
    }
    let rows = rows.iter().map(|(name, what, default)| {
        let default = default.trim_matches('"');
        let default = match default {
            "" | "must be given" => default.to_owned(),
            value => format!("`{value}`"),
        };
        format!("| `{name}` | {default} | {} |\n", code(what))
    });
    rows.collect()
}

/// What Ansible writes as `C(code)`.
fn code(text: &str) -> String {
    let mut parts = text.split("C(");
    let mut report = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (code, rest) = part.split_once(')').unwrap_or((part, ""));
        let _ = write!(report, "`{code}`{rest}");
    }
    report
}

/// Variables that programs or scripts know and the page does not tell, or the other way round.
pub(crate) fn undocumented_variables(files: &[TextFile]) -> Vec<Violation> {
    let known = |name: &str| ENVIRONMENT_VARIABLES.iter().any(|it| it.0 == name);
    let mut violations = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for file in files.iter().filter(|file| is_run_by_users(&file.path)) {
        for (number, line) in file.text.lines().enumerate() {
            for name in variables(line) {
                seen.insert(name);
                if !known(name) {
                    let what = format!("{name} is documented nowhere");
                    let mend = "name it among ENVIRONMENT_VARIABLES in tests/tidy/settings.rs";
                    violations.push(Violation::new(&file.path, number + 1, what, mend));
                }
            }
        }
    }
    for (name, ..) in ENVIRONMENT_VARIABLES
        .iter()
        .filter(|it| !seen.contains(it.0))
    {
        let mend = "take it out of ENVIRONMENT_VARIABLES in tests/tidy/settings.rs";
        let what = format!("no program reads {name}");
        violations.push(Violation::new("docs/configuration.md", 1, what, mend));
    }
    violations
}

/// Tests have variables of their own.
fn is_run_by_users(path: &str) -> bool {
    let of_programs = [
        "agent/",
        "common/",
        "coordinator/",
        "proto/",
        "deploy/slurm/",
    ];
    let tests = ["/tests/", "/tests.rs", "examples.rs", "/reference"];
    let code = path.ends_with(".rs") || path.ends_with(".sh");
    code && of_programs.iter().any(|it| path.starts_with(it))
        && !tests.iter().any(|it| path.contains(it))
}

fn variables(line: &str) -> impl Iterator<Item = &str> {
    let letter = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let names = line.split(move |c| !letter(c));
    names.filter(|name| {
        name.strip_prefix("REWEAVE_")
            .is_some_and(|rest| !rest.is_empty())
    })
}

fn paragraph(page: &mut String, words: &mut Vec<&str>) {
    if !words.is_empty() {
        let _ = write!(page, "\n{}\n", words.join("\n"));
    }
    words.clear();
}

enum Line<'a> {
    Empty,
    Words(&'a str),
    /// `[table]`, or `[[table]]` where there may be several.
    Section(&'a str),
    Key {
        key: &'a str,
        value: &'a str,
        what: &'a str,
    },
}

impl<'a> Line<'a> {
    /// A key that is commented out stands right behind its `#`.
    fn of(line: &'a str) -> Self {
        let bare = line.strip_prefix('#').unwrap_or(line);
        if line.starts_with('[') {
            return Self::Section(line);
        }
        if let Some(words) = line.strip_prefix("# ") {
            return Self::Words(words);
        }
        let Some((key, rest)) = bare.split_once(" = ") else {
            return Self::Empty;
        };
        let (value, what) = rest.split_once(" #").unwrap_or((rest, ""));
        let [value, what] = [value, what].map(str::trim);
        Self::Key { key, value, what }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_keys_become_rows() {
        let sample = "# Where it listens.\nport = 7 # a number\n#door = \"a#b\"\n\n[policy]\nmode = \"auto\"    # who decides\n";
        let page = of_files(&[("sample.toml", sample)]);
        let expected = "\n## sample.toml\n\nWhere it listens.\n\n| key | default | what it is |\n|---|---|---|\n\
             | `port` | `7` | a number |\n| `door` | `\"a#b\"` |  |\n\n### [policy]\n\n\
             | key | default | what it is |\n|---|---|---|\n| `mode` | `\"auto\"` | who decides |\n";
        assert_eq!(page.strip_prefix(PAGE_HEAD), Some(expected));
    }

    #[test]
    fn role_options_become_rows() {
        let specs = "argument_specs:\n  main:\n    options:\n      reweave_one:\n        description: >-\n          A folder\n          \
                     with C(things).\n        required: true\n      reweave_two:\n        description: Some.\n        default: 60\n";
        let rows = "| `reweave_one` | must be given | A folder with `things`. |\n| `reweave_two` | `60` | Some. |\n";
        assert_eq!(of_role(specs), rows);
    }

    #[test]
    fn undocumented_or_unread_variable_is_named() {
        let file = TextFile {
            path: "agent/src/run.rs".to_owned(),
            text: "env(\"REWEAVE_JOIN\")\nenv(\"REWEAVE_MOOD\")".to_owned(),
        };
        let found = undocumented_variables(&[file]);
        let reports: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert!(
            reports[0].contains("REWEAVE_MOOD is documented nowhere"),
            "{reports:?}"
        );
        assert_eq!(reports.len(), ENVIRONMENT_VARIABLES.len(), "{reports:?}");
    }
}
