//! Every case of the reference data: per-flow times of an independent simulator.

#![allow(
    clippy::disallowed_methods,
    reason = "the reference data lies in files that the environment names"
)]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use reweave_sim::engine::{self, SimTime};

const DATA_VARIABLE: &str = "REWEAVE_REFERENCE_DATA";
/// The tables show nanoseconds, rounded.
const ROUNDING_S: f64 = 0.6e-9;
const RELATIVE_TOLERANCE: f64 = 1e-6;

fn main() -> ExitCode {
    libtest_mimic::run(&Arguments::from_args(), trials()).exit_code()
}

fn trials() -> Vec<Trial> {
    let Some(data) = env::var_os(DATA_VARIABLE) else {
        let trial = Trial::test("raw", || Ok(()));
        return vec![
            trial
                .with_kind(format!("needs {DATA_VARIABLE}"))
                .with_ignored_flag(true),
        ];
    };
    let mut cases = cases(&Path::new(&data).join("raw"));
    cases.sort();
    assert!(!cases.is_empty(), "{DATA_VARIABLE} has no raw cases");
    let trial = |case: PathBuf| {
        let name = case.file_stem().unwrap_or_default().to_string_lossy();
        Trial::test(format!("raw::{name}"), move || agrees(&case))
    };
    cases.into_iter().map(trial).collect()
}

fn cases(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    paths
        .filter(|path| path.extension().is_some_and(|it| it == "raw"))
        .collect()
}

fn agrees(case: &Path) -> Result<(), Failed> {
    let problem = engine::raw::parse(&case.display().to_string(), &fs::read_to_string(case)?)?;
    let outcome = engine::simulate(&problem, 1 << 32)?;
    let expected = fs::read_to_string(case.with_extension("expect"))?;
    let mut compared = 0;
    for line in expected.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        let task: usize = words[0].parse()?;
        close(task, outcome.starts[task], words[1].parse()?)?;
        close(task, outcome.finishes[task], words[2].parse()?)?;
        compared += 1;
    }
    if compared == problem.tasks() {
        Ok(())
    } else {
        Err(format!("{compared} of {} flows compared", problem.tasks()).into())
    }
}

fn close(task: usize, found: SimTime, expected_s: f64) -> Result<(), Failed> {
    let apart = (found.seconds() - expected_s).abs();
    if apart <= expected_s * RELATIVE_TOLERANCE + ROUNDING_S {
        Ok(())
    } else {
        Err(format!(
            "flow {task}: {} s, expected {expected_s} s",
            found.seconds()
        )
        .into())
    }
}
