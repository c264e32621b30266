//! `reweave sim history`: the traffic of a stretch of time that was, as it would have been elsewhere.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use reweave_common::moment::Moment;
use reweave_history::{Kind, Window, written};
use reweave_planner::sandbox::{Compared, Effort, SandboxError, Variant, VariantFile, compare};
use serde::Serialize;

use super::costs::Costs;
use super::measured::{self, Lossy};
use super::progress::Progress;
use super::{abreast, effort, input, past, progress};
use crate::error::CliError;
use crate::page::tell;
use crate::{Output, print, say};

/// Traffic of the past, on another fabric, with other ways or between other hosts
///
/// Several variants stand side by side; for scripts each is a line of its own, in the order in which they
/// were named.
#[derive(Debug, Args)]
pub(crate) struct History {
    /// From when, and for how long: 2026-11-20T14:00/10m (UTC), or 1h/10m for an hour ago
    #[arg(value_name = "FROM/SPAN")]
    span: String,
    /// What is to be otherwise; may be repeated
    #[arg(long = "with", value_name = "VARIANT.toml", required = true)]
    variants: Vec<PathBuf>,
    /// Exit with 1 if the bursts of a variant take so much longer in all than as it was
    #[arg(long, value_name = "PERCENT", value_parser = percent, allow_negative_numbers = true)]
    fail_if_slower: Option<f64>,
    /// Where the history is kept: a folder or s3://bucket/prefix
    #[arg(long, env = "REWEAVE_HISTORY", value_name = "URL")]
    history: String,
    #[command(flatten)]
    costs: Costs,
    #[command(flatten)]
    effort: effort::Effort,
}

fn percent(text: &str) -> Result<f64, &'static str> {
    let percent = text.parse().ok();
    let sound = percent.filter(|it: &f64| it.is_finite() && *it >= 0.0);
    sound.ok_or("no share in percent, as 5 or 0.5")
}

#[derive(Debug, Serialize)]
pub(super) struct Answer {
    pub(super) name: String,
    pub(super) from: String,
    pub(super) to: String,
    resolution: String,
    /// How much longer its bursts take in all; less than nothing where they are faster.
    pub(super) slower_percent: f64,
    #[serde(flatten)]
    pub(super) compared: Compared,
    /// Links of the recorded fabric that lost something, by probes and ports.
    pub(super) lossy: Vec<Lossy>,
    wall_ms: f64,
}

impl History {
    pub(crate) fn run(&self, output: Output) -> Result<ExitCode, CliError> {
        let variants = self.variants.iter().map(|path| read(path));
        let variants: Vec<_> = variants.collect::<Result<_, _>>()?;
        let span = past::span(&self.span)?;
        let kinds = [&[Kind::Flows][..], &measured::KINDS].concat();
        let window = past::window(&self.history, span, &kinds)?;
        let answers = variants.iter().map(|it| self.play(span, &window, it));
        let answers: Vec<_> = answers.collect::<Result<_, _>>()?;
        tell_all(output, &answers)?;
        Ok(self.verdict(&answers))
    }

    fn play(
        &self,
        [from, to]: [Moment; 2],
        window: &Window,
        Read {
            name,
            variant,
            files,
        }: &Read,
    ) -> Result<Answer, CliError> {
        let began = Instant::now();
        let mut progress = Progress::begin("tasks");
        let mut effort = Effort {
            costs: self.costs.known().ok_or(CliError::NoPayload)?,
            limit: self.effort.limit(),
            watch: &mut |at| {
                progress.see(at);
                true
            },
        };
        let compared = compare(&window.bursts(), from, variant, &mut effort);
        progress.end();
        let [from, to] = [from, to].map(written);
        let compared = compared.map_err(|error| failed(error, [&from, &to], files))?;
        let lossy = measured::lossy(window, &variant.recorded);
        Ok(Answer {
            name: name.clone(),
            slower_percent: slower_percent(&compared),
            compared,
            from,
            to,
            resolution: window.resolution.name().to_owned(),
            lossy: measured::listed(&lossy, &variant.recorded),
            wall_ms: progress::millis(began),
        })
    }

    fn verdict(&self, answers: &[Answer]) -> ExitCode {
        let most = self.fail_if_slower.unwrap_or(f64::INFINITY);
        let slower = answers.iter().filter(|it| it.slower_percent > most);
        let slower: Vec<_> = slower.collect();
        for Answer {
            name,
            slower_percent,
            ..
        } in &slower
        {
            tell(&format!(
                "{name}: the bursts take {slower_percent:.1} % longer than as it was, and {most} % are allowed"
            ));
        }
        if slower.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}

fn slower_percent(compared: &Compared) -> f64 {
    let [before, then] = [&compared.as_it_was, &compared.variant].map(|it| it.busy_ms);
    (then / before - 1.0) * 100.0
}

/// One answer is laid out whole; several are compared.
fn tell_all(output: Output, answers: &[Answer]) -> Result<(), CliError> {
    match (output, answers) {
        (_, [answer]) => print(output, answer, |page| abreast::alone(page, answer))?,
        (Output::Table, answers) => print(output, &(), |page| abreast::all(page, answers))?,
        _ => return each(output, answers),
    };
    Ok(())
}

fn each(output: Output, answers: &[Answer]) -> Result<(), CliError> {
    for answer in answers {
        if output == Output::Yaml {
            say("---\n")?;
        }
        print(output, answer, |_| ())?;
    }
    Ok(())
}

/// A variant, and where its fabrics are written down.
struct Read {
    name: String,
    variant: Variant,
    files: [PathBuf; 2],
}

/// With the files of both fabrics, which lie beside it.
fn read(path: &Path) -> Result<Read, CliError> {
    let (name, text) = (path.display().to_string(), input::text(path)?);
    let file = VariantFile::parse(&name, &text).map_err(CliError::Input)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let files = file.fabrics().map(|name| folder.join(name));
    let fabrics = [input::fabric(&files[0])?, input::fabric(&files[1])?];
    let variant = file.on(fabrics).map_err(CliError::Input)?;
    Ok(Read {
        name,
        variant,
        files,
    })
}

fn failed(error: SandboxError, [from, to]: [&str; 2], files: &[PathBuf; 2]) -> CliError {
    match error {
        SandboxError::NothingSent => CliError::NothingSent {
            from: from.to_owned(),
            to: to.to_owned(),
        },
        SandboxError::NotInFabric { name } => CliError::NotInFabric { name }.on(&files[1]),
        SandboxError::AsItWas(error) => CliError::Replay(error).on(&files[0]),
        SandboxError::Otherwise(error) => CliError::Replay(error).on(&files[1]),
    }
}
