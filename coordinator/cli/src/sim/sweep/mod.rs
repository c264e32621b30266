//! `--sweep`: the same simulation for many settings, on all cores; `--shard` splits it over machines.
//!
//! Each point is a process of its own: this program with the options of that point. A failing point does not affect the
//! others.

mod axis;
mod store;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;

use clap::Args;
use reweave_sim::engine;
use serde::Serialize;
use serde_json::{Map, Number, Value, json};

use super::input;
use super::progress::{self, Progress};
use crate::error::CliError;
use crate::page::Page;
use crate::report::Report;
use crate::{Output, document, print_data, print_report};
use axis::{Axis, Point, Shard};

pub(crate) use store::Gather;

#[derive(Debug, Args)]
#[command(next_help_heading = "Many settings")]
pub(crate) struct Sweep {
    /// Run for each of these values of an option, or of a key of the fabric file. KEY=A,B,C or, for whole numbers,
    /// KEY=FIRST..LAST; several sweeps make all combinations
    #[arg(long, value_name = "KEY=VALUES", global = true)]
    sweep: Vec<Axis>,
    /// Only the K-th of every N points of a sweep, counted from 0
    #[arg(long, value_name = "K/N", global = true, requires = "to")]
    shard: Option<Shard>,
    /// Write the results to a file of this shard in a folder, or at a URL
    #[arg(long, value_name = "FOLDER|URL", global = true)]
    to: Option<String>,
}

/// Options of sweeps and of `--output`. All of them take a value.
const SWEEP_OPTIONS: [&str; 5] = ["--sweep", "--shard", "--to", "--output", "-o"];

impl Sweep {
    pub(super) fn is_asked(&self) -> bool {
        !self.sweep.is_empty()
    }

    /// Runs all points. `options` are those that the simulation knows.
    pub(super) fn run(&self, options: &[String], output: Output) -> Result<ExitCode, CliError> {
        if env::args().skip(1).any(|word| word == "-") {
            return Err(CliError::InputTwice);
        }
        let shard = self.shard.unwrap_or(Shard::UNSHARDED);
        let points = axis::points(&self.sweep)?;
        let points: Vec<_> = points
            .into_iter()
            .enumerate()
            .filter(|(nth, _)| shard.has(*nth))
            .collect();
        let asker = Asker::new(options)?;
        let answers = asker.ask_all(&points);
        let failed = answers
            .iter()
            .filter(|answer| answer.get("error").is_some())
            .count();
        self.print_answers(&answers, shard, output)?;
        Ok(if failed > 0 {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        })
    }

    fn print_answers(
        &self,
        answers: &[Value],
        shard: Shard,
        output: Output,
    ) -> Result<(), CliError> {
        if let Some(to) = &self.to {
            let lines = answers.iter();
            let lines = lines.map(|answer| document(Output::Json, &PointAnswer(answer)));
            let lines = lines.collect::<Result<String, _>>()?;
            let written = store::write(to, &shard.file(), lines)?;
            let points = answers.len();
            return print_report(output, &WrittenShard { points, written }).map(drop);
        }
        for answer in answers {
            print_data(&document(output, &PointAnswer(answer))?)?;
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct WrittenShard {
    points: usize,
    written: String,
}

impl Report for WrittenShard {
    fn lay_out(&self, page: &mut Page) {
        page.line(&format!("{} points in {}", self.points, self.written));
    }
}

/// The settings of a point, with its figures or its error.
#[derive(Serialize)]
#[serde(transparent)]
struct PointAnswer<'a>(&'a Value);

impl Report for PointAnswer<'_> {
    fn lay_out(&self, page: &mut Page) {
        page.line(&in_words(self.0));
    }
}

/// Formats the settings and figures of a point on one line.
fn in_words(answer: &Value) -> String {
    let figures = |key: &str| {
        let fields = answer
            .get(key)
            .and_then(Value::as_object)
            .into_iter()
            .flatten();
        let simple = fields.filter(|(_, value)| !value.is_array() && !value.is_object());
        let words = simple.map(|(name, value)| match value {
            Value::String(text) => format!("{name}={text}"),
            Value::Number(number) => format!("{name}={}", in_short(number)),
            value => format!("{name}={value}"),
        });
        words.collect::<Vec<_>>().join(" ")
    };
    let error = answer
        .get("error")
        .and_then(Value::as_str)
        .unwrap_or_default();
    format!("{}: {}{error}", figures("point"), figures("answer"))
}

/// Digits of a fractional figure in text output.
const SIGNIFICANT_DIGITS: i32 = 6;

fn in_short(number: &Number) -> String {
    match number.as_f64().filter(|_| number.is_f64()) {
        Some(figure) if figure != 0.0 => {
            let before_point = figure.abs().log10().floor() as i32 + 1;
            let decimals = (SIGNIFICANT_DIGITS - before_point).clamp(0, 12) as usize;
            let short = format!("{figure:.decimals$}");
            if short.contains('.') {
                short.trim_end_matches('0').trim_end_matches('.').to_owned()
            } else {
                short
            }
        }
        _ => number.to_string(),
    }
}

/// Runs points by starting this program.
struct Asker<'o> {
    program: PathBuf,
    arguments: Vec<String>,
    options: &'o [String],
    /// Folder for fabrics that differ from the given one.
    scratch: tempfile::TempDir,
}

impl<'o> Asker<'o> {
    fn new(options: &'o [String]) -> Result<Self, CliError> {
        Ok(Self {
            program: env::current_exe().map_err(CliError::Start)?,
            arguments: without_own(env::args().skip(1)),
            options,
            scratch: tempfile::tempdir().map_err(CliError::Start)?,
        })
    }

    /// Returns the answers in the order of the points.
    fn ask_all(&self, points: &[(usize, Point)]) -> Vec<Value> {
        let next = AtomicUsize::new(0);
        let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
        thread::scope(|scope| {
            let (sender, receiver) = mpsc::channel();
            for _ in 0..cores.min(points.len()) {
                let (sender, next) = (sender.clone(), &next);
                scope.spawn(move || {
                    while let Some((place, (nth, point))) =
                        at(points, next.fetch_add(1, Ordering::Relaxed))
                    {
                        // The receiver waits for all answers.
                        let _ = sender.send((place, self.ask(*nth, point)));
                    }
                });
            }
            drop(sender);
            gathered(points.len(), &receiver)
        })
    }

    fn ask(&self, nth: usize, point: &Point) -> Value {
        let settings: Map<_, _> = point
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        match self.answer(nth, point) {
            Ok(answer) => json!({ "point": settings, "answer": answer }),
            Err(error) => json!({ "point": settings, "error": error }),
        }
    }

    fn answer(&self, nth: usize, point: &Point) -> Result<Value, String> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).args(["--output", "json"]);
        let is_option = |key: &str| self.options.iter().any(|option| option == key);
        let (options, keys): (Vec<_>, Vec<_>) = point.iter().partition(|(key, _)| is_option(key));
        for (key, value) in options {
            command.arg(format!("--{key}={}", axis::plain(value)));
        }
        let file = self.scratch.path().join(format!("point-{nth}.toml"));
        if !keys.is_empty() {
            self.write_variant(&file, &keys)?;
            command.arg("--fabric").arg(&file);
        }
        let output = command.output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            let words = on_one_line(&String::from_utf8_lossy(&output.stderr));
            return Err(words.replace(&file.display().to_string(), "the fabric of this point"));
        }
        let answer = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
        Ok(crate::json::without_version(answer))
    }

    /// Writes the fabric with other values of some keys.
    fn write_variant(&self, file: &Path, keys: &[&(String, Value)]) -> Result<(), String> {
        let unknown = || {
            format!(
                "{} is neither an option nor a key of a fabric here",
                keys[0].0
            )
        };
        let base = fabric_of(&self.arguments).ok_or_else(unknown)?;
        let text = input::text(Path::new(&base)).map_err(|error| error.error_chain())?;
        let mut table: toml::Table = text
            .parse()
            .map_err(|error: toml::de::Error| error.message().to_owned())?;
        for (key, value) in keys.iter().copied() {
            let value = toml::Value::try_from(value).map_err(|error| error.to_string())?;
            table.insert(key.clone(), value);
        }
        fs::write(file, table.to_string()).map_err(|error| error.to_string())
    }
}

/// Returns the error message of a point on one line, without usage hints.
fn on_one_line(words: &str) -> String {
    let words = words.trim().trim_start_matches("error: ");
    let wrong = words.lines().take_while(|line| !line.is_empty());
    wrong.map(str::trim).collect::<Vec<_>>().join(" ")
}

fn at<T>(all: &[T], place: usize) -> Option<(usize, &T)> {
    all.get(place).map(|it| (place, it))
}

/// Collects all answers in their places. Progress is shown even while none arrives.
fn gathered(points: usize, receiver: &Receiver<(usize, Value)>) -> Vec<Value> {
    let mut answers = vec![Value::Null; points];
    let mut progress = Progress::begin("points");
    let mut done = 0;
    loop {
        match receiver.recv_timeout(progress::PROGRESS_INTERVAL) {
            Ok((place, answer)) => {
                answers[place] = answer;
                done += 1;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        progress.see(engine::Progress {
            done,
            tasks: points,
        });
    }
    progress.end();
    answers
}

fn without_own(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let mut kept = Vec::new();
    let mut skip = false;
    for argument in arguments {
        let is_own = SWEEP_OPTIONS.contains(&argument.as_str());
        let is_long = |own: &&str| argument.starts_with(&format!("{own}="));
        // A short option may have its value in the same argument.
        let is_short = argument.starts_with("-o") && !is_own;
        let holds_value = is_short || SWEEP_OPTIONS.iter().any(is_long);
        if !(skip || is_own || holds_value) {
            kept.push(argument);
        }
        skip = is_own;
    }
    kept
}

fn fabric_of(arguments: &[String]) -> Option<String> {
    let follows = arguments
        .iter()
        .skip_while(|it| *it != "--fabric")
        .nth(1)
        .cloned();
    let joined = || {
        arguments
            .iter()
            .find_map(|it| it.strip_prefix("--fabric=").map(str::to_owned))
    };
    follows.or_else(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_do_not_inherit_sweep_options() {
        let words = "-o yaml sim --sweep=seed=1..3 raw -oyaml f.raw --to out --output=json";
        let kept = without_own(words.split(' ').map(str::to_owned));
        assert_eq!(kept, ["sim", "raw", "f.raw"]);
    }

    #[test]
    fn failure_is_one_line() {
        let usage =
            "error: the following arguments were not provided:\n  --interval\n\nUsage: reweave\n";
        let said = "the following arguments were not provided: --interval";
        assert_eq!(on_one_line(usage), said);
        assert_eq!(on_one_line("error: no way\n"), "no way");
    }

    #[test]
    fn figures_have_readable_digits() {
        let answer = json!({
            "point": { "seed": 3, "link_gbps": 100.0 },
            "answer": { "busbw_gbps": 13.513513513513514, "events": 1234567, "links": [1],
                        "wall_ms": 0.00012345678, "time_us": 98765432.1, "algorithm": "ring" }
        });
        assert_eq!(
            in_words(&answer),
            "link_gbps=100 seed=3: algorithm=ring busbw_gbps=13.5135 events=1234567 \
             time_us=98765432 wall_ms=0.000123457"
        );
        let failed = json!({ "point": { "seed": 0 }, "error": "no way" });
        assert_eq!(in_words(&failed), "seed=0: no way");
    }
}
