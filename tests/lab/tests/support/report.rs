//! Running a scenario to its end, and reading its report.

use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::Value;

use super::{Home, Said, finish};

/// Runs a scenario to its end and returns its report.
#[track_caller]
pub(crate) fn report(home: &Home, file: &Path, code: i32) -> Value {
    finish(start(home, file), "reweave-lab run")
        .expect_code(code)
        .json()
}

/// The same for a scenario given as text.
#[track_caller]
pub(crate) fn report_text(text: &str, code: i32) -> Value {
    let home = Home::new();
    report(&home, &home.file("run.toml", text), code)
}

pub(crate) fn start(home: &Home, file: &Path) -> Child {
    let mut command = home.lab(&["run", "--output", "json"]);
    command
        .arg(file)
        .current_dir(&home.path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().expect("the lab's program starts")
}

pub(crate) fn word(value: &Value) -> &str {
    value
        .as_str()
        .unwrap_or_else(|| panic!("{value} is no word"))
}

pub(crate) fn figure(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is no figure"))
}

pub(crate) fn jobs(report: &Value) -> &Vec<Value> {
    report["jobs"].as_array().expect("a report has jobs")
}

pub(crate) fn flows(job: &Value) -> &Vec<Value> {
    job["flows"].as_array().expect("a job has flows")
}

/// The expectations that were not met, each with what was seen.
pub(crate) fn not_met(report: &Value) -> Vec<String> {
    let verdicts = report["expectations"].as_array().expect("a report judges");
    let failed = verdicts.iter().filter(|verdict| verdict["met"] == false);
    failed
        .map(|verdict| format!("{}: {}", word(&verdict["expected"]), word(&verdict["seen"])))
        .collect()
}

/// Whether a run's words hold a line that begins so.
pub(crate) fn has_line(said: &Said, beginning: &str) -> bool {
    let mut lines = said.stdout.lines().chain(said.stderr.lines());
    lines.any(|line| line.trim_start().starts_with(beginning))
}
