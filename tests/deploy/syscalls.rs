//! Which system calls a program makes, and which its unit lets it make.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use super::{output_of, text};

/// The names of all calls of the program and of all that it starts, from the log of one strace.
pub(crate) fn made_by(program: &str, calls: &str) -> BTreeSet<String> {
    let mut members = BTreeSet::new();
    let mut made = BTreeSet::new();
    for (task, call) in calls.lines().filter_map(|line| line.split_once(' ')) {
        let call = call.trim_start();
        if call.starts_with("execve(") && call.contains(&format!("/{program}\"")) {
            members.insert(task);
        }
        if !members.contains(task) {
            continue;
        }
        made.extend(name(call).map(str::to_owned));
        members.extend(started(call));
    }
    made
}

fn name(call: &str) -> Option<&str> {
    let (name, _) = call.split_once('(')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!name.is_empty() && name.chars().all(plain)).then_some(name)
}

/// The task that a call began, once it returned.
fn started(call: &str) -> Option<&str> {
    let begins = ["clone", "fork", "vfork"];
    let call = call.trim_start_matches("<... ");
    let (_, task) = call.rsplit_once(" = ")?;
    begins
        .iter()
        .any(|name| call.starts_with(name))
        .then_some(task)
}

/// All that the lines `SystemCallFilter=` of a unit leave.
pub(crate) fn allowed_by(unit: &Path) -> BTreeSet<String> {
    let sets = sets();
    let unit = text(unit);
    let filters = unit
        .lines()
        .filter_map(|line| line.strip_prefix("SystemCallFilter="));
    let mut allowed = BTreeSet::new();
    for filter in filters {
        let (filter, taken) = match filter.strip_prefix('~') {
            Some(filter) => (filter, true),
            None => (filter, false),
        };
        for call in filter
            .split_whitespace()
            .flat_map(|name| expand(name, &sets))
        {
            if taken {
                allowed.remove(&call)
            } else {
                allowed.insert(call)
            };
        }
    }
    allowed
}

fn expand(name: &str, sets: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    match sets.get(name) {
        Some(parts) => parts.iter().flat_map(|part| expand(part, sets)).collect(),
        None => vec![name.to_owned()],
    }
}

/// As this machine's systemd knows them.
fn sets() -> BTreeMap<String, Vec<String>> {
    let output = output_of(Command::new("systemd-analyze").args(["syscall-filter", "--no-pager"]));
    let mut sets = BTreeMap::<_, Vec<_>>::new();
    let mut set = String::new();
    for line in output.lines() {
        match line.strip_prefix("    ") {
            Some(member) if !member.starts_with('#') => {
                sets.entry(set.clone()).or_default().push(member.to_owned());
            }
            Some(_) => {}
            None => line.clone_into(&mut set),
        }
    }
    sets
}
