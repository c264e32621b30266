//! `reweave sim history`: the traffic of a stretch of time that was, as it would have been elsewhere.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use reweave_history::{Kind, written};
use reweave_planner::sandbox::{
    Compared, Effort, Outcome, SandboxError, Variant, VariantFile, compare,
};
use serde::Serialize;

use super::costs::Costs;
use super::measured::{self, Lossy};
use super::progress::Progress;
use super::{effort, input, past, progress, show};
use crate::error::CliError;
use crate::page::Page;
use crate::{Output, print};

/// Traffic of the past, on another fabric, with other ways or between other hosts
#[derive(Debug, Args)]
pub(crate) struct History {
    /// From when, and for how long: 2026-11-20T14:00:00Z/10m, or 1h/10m for an hour ago
    #[arg(value_name = "FROM/SPAN")]
    span: String,
    /// What is to be otherwise
    #[arg(long = "with", value_name = "VARIANT.toml")]
    variant: PathBuf,
    /// Where the history is kept: a folder or s3://bucket/prefix
    #[arg(long, env = "REWEAVE_HISTORY", value_name = "URL")]
    history: String,
    #[command(flatten)]
    costs: Costs,
    #[command(flatten)]
    effort: effort::Effort,
}

#[derive(Debug, Serialize)]
struct Answer {
    from: String,
    to: String,
    resolution: String,
    #[serde(flatten)]
    compared: Compared,
    /// Links of the recorded fabric that lost something, by probes and ports.
    lossy: Vec<Lossy>,
    wall_ms: f64,
}

impl History {
    pub(crate) fn run(&self, output: Output) -> Result<ExitCode, CliError> {
        let (variant, files) = read(&self.variant)?;
        let span = past::span(&self.span)?;
        let [from, to] = span;
        let kinds = [&[Kind::Flows][..], &measured::KINDS].concat();
        let window = past::window(&self.history, span, &kinds)?;
        let lossy = measured::lossy(&window, &variant.recorded);
        let costs = self.costs.known().ok_or(CliError::NoPayload)?;
        let began = Instant::now();
        let mut progress = Progress::begin("tasks");
        let mut effort = Effort {
            costs,
            limit: self.effort.limit(),
            watch: &mut |at| {
                progress.see(at);
                true
            },
        };
        let compared = compare(&window.bursts(), from, &variant, &mut effort);
        progress.end();
        let [from, to] = [from, to].map(written);
        let answer = Answer {
            compared: compared.map_err(|error| failed(error, [&from, &to], &files))?,
            from,
            to,
            resolution: window.resolution.name().to_owned(),
            lossy: measured::listed(&lossy, &variant.recorded),
            wall_ms: progress::millis(began),
        };
        print(output, &answer, |page| lay_out(page, &answer))
    }
}

/// With the files of both fabrics, which lie beside it.
fn read(path: &Path) -> Result<(Variant, [PathBuf; 2]), CliError> {
    let (name, text) = (path.display().to_string(), input::text(path)?);
    let file = VariantFile::parse(&name, &text).map_err(CliError::Input)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let files = file.fabrics().map(|name| folder.join(name));
    let fabrics = [input::fabric(&files[0])?, input::fabric(&files[1])?];
    let variant = file.on(fabrics).map_err(CliError::Input)?;
    Ok((variant, files))
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

/// People look at so many rows.
const ROWS: usize = 12;

fn lay_out(page: &mut Page, answer: &Answer) {
    let compared = &answer.compared;
    let Compared {
        as_it_was, variant, ..
    } = compared;
    page.line(&format!(
        "From {} to {}: {} bursts, {} of them over unknown ways, and {} that are left out.",
        answer.from,
        answer.to,
        compared.bursts.len(),
        compared.ways_unknown,
        compared.left_out
    ));
    page.line(&format!(
        "As it was, the model is off by {:.1} % on average, {:.1} % at most.",
        compared.mean_error * 100.0,
        compared.worst_error * 100.0
    ));
    let row = |name: &str, it: &Outcome| {
        let figures = [it.end_ms, it.busy_ms, it.slowest_mbps].map(|it| format!("{it:.1}"));
        let [end, busy, slowest] = figures;
        [name.to_owned(), end, busy, slowest]
    };
    page.table(
        ["", "ends after ms", "bursts in all ms", "slowest Mb/s"],
        [row("as it was", as_it_was), row("variant", variant)],
    );
    let full = |name: &'static str, it: &Outcome| {
        let links = it.fullest.iter().take(3);
        let links = links.map(|it| format!("{} > {} {:.0} %", it.from, it.to, it.share * 100.0));
        [name.to_owned(), links.collect::<Vec<_>>().join(", ")]
    };
    page.table(
        ["", "fullest links until then"],
        [full("as it was", as_it_was), full("variant", variant)],
    );
    show::lossy(page, &answer.lossy);
    page.heading("Bursts, the largest first");
    let mut bursts: Vec<_> = compared.bursts.iter().collect();
    bursts.sort_by_key(|it| std::cmp::Reverse(it.bytes));
    page.table(
        ["from", "to", "MB", "measured Mb/s", "as it was", "variant"],
        bursts.iter().take(ROWS).map(|it| {
            let figures = [it.measured_mbps, it.as_it_was_mbps, it.variant_mbps];
            let [measured, same, other] = figures.map(|it| format!("{it:.1}"));
            let megabytes = format!("{:.1}", it.bytes as f64 / 1e6);
            [
                it.from.clone(),
                it.to.clone(),
                megabytes,
                measured,
                same,
                other,
            ]
        }),
    );
}
