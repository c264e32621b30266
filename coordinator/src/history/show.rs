//! `reweave-coordinator measurements`: what there was from one moment to another, as a table or as JSON.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::SystemTime;

use clap::{Args, ValueEnum};
use reweave_common::api_version::Versioned;
use reweave_common::moment::Moment;
use reweave_common::units::Rate;
use reweave_history::{
    Figures, Kind, Past, Question, Resolution, Seen, Window, moment_of, written,
};

use super::HistoryError;
use crate::config::history_url;
use crate::error::CoordinatorError;
use crate::voice;

#[derive(Debug, Args)]
pub(crate) struct ShowOptions {
    /// Start: 2026-11-20T14:00:00Z, or 15m for 15 minutes ago
    #[arg(long, value_name = "TIME", default_value = "15m")]
    from: String,
    /// End [default: now]
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// 1s, 10s or 5min [default: the finest that fits the span and is stored]
    #[arg(long)]
    resolution: Option<String>,
    /// links, flows, agents, …; may be given more than once [default: all]
    #[arg(long, value_name = "KIND")]
    kind: Vec<String>,
    #[arg(long, default_value = "table")]
    output: Output,
    /// Folder or s3://bucket/prefix [default: from the coordinator's settings]
    #[arg(long)]
    url: Option<String>,
    /// Settings file of the coordinator
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Data folder of the coordinator [default: /var/lib/reweave/coordinator]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Output {
    Table,
    Json,
}

pub(crate) fn show(asked: &ShowOptions) -> Result<(), CoordinatorError> {
    let url = match &asked.url {
        Some(url) => url.clone(),
        None => history_url(asked.config.as_deref(), asked.data.as_deref())?,
    };
    let question = asked.question(SystemTime::now())?;
    let past = Past::open(&url).map_err(HistoryError::Open)?;
    let window = past.look(&question).map_err(HistoryError::Read)?;
    for warning in &window.warnings {
        tracing::warn!("{warning}");
    }
    let printed = match asked.output {
        Output::Json => print_json(&window),
        Output::Table => voice::out().write_all(table(&window).as_bytes()),
    };
    Ok(printed.map_err(HistoryError::Print)?)
}

impl ShowOptions {
    fn question(&self, now: SystemTime) -> Result<Question, HistoryError> {
        let resolution = self.resolution.as_ref();
        let resolution = resolution.map(|text| {
            let text = text.clone();
            Resolution::named(&text).ok_or(HistoryError::NoResolution { text })
        });
        let kinds: Result<Vec<_>, _> = self.kind.iter().map(|text| kind(text)).collect();
        let mut kinds = kinds?;
        if kinds.is_empty() {
            kinds = Kind::ALL.into();
        }
        Ok(Question {
            from: moment(&self.from, now)?,
            to: moment(self.to.as_deref().unwrap_or("0s"), now)?,
            resolution: resolution.transpose()?,
            kinds,
        })
    }
}

fn kind(text: &str) -> Result<Kind, HistoryError> {
    Kind::named(text).ok_or_else(|| HistoryError::NoKind {
        text: text.to_owned(),
        known: Kind::ALL.map(Kind::name).into(),
    })
}

fn moment(text: &str, now: SystemTime) -> Result<Moment, HistoryError> {
    moment_of(text, now).ok_or_else(|| HistoryError::NoMoment {
        text: text.to_owned(),
    })
}

fn print_json(window: &Window) -> io::Result<()> {
    let mut out = io::BufWriter::new(voice::out());
    serde_json::to_writer(&mut out, &Versioned::new(window))?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Prints each series in one line, over the whole window.
fn table(window: &Window) -> String {
    let mut lines = Vec::new();
    let mut section = |title: &str, rows: Vec<String>| {
        if !rows.is_empty() {
            lines.push(format!("{title}, {} each", window.resolution.name()));
            lines.extend(rows.into_iter().map(|row| format!("  {row}")));
        }
    };
    section("Links", links(window));
    section("Flows", flows(window));
    section("Probes, by their medians", probes(window));
    section("Agents", agents(window));
    let events = [&window.changes, &window.findings].into_iter().flatten();
    let mut events: Vec<_> = events.collect();
    events.sort_by_key(|seen| seen.at);
    let event = |seen: &&Seen<reweave_history::Event>| {
        let generation = seen.what.generation.map_or(0, |generation| generation.0);
        format!(
            "{}  {} {} of generation {generation}",
            written(seen.at),
            seen.what.what,
            seen.what.place
        )
    };
    section("Changes and findings", events.iter().map(event).collect());
    let gaps = window.gaps.iter();
    let gap = gaps.map(|seen| format!("{}  {}", written(seen.at), seen.what.why));
    section("Missing", gap.collect());
    if lines.is_empty() {
        "no history of this time\n".to_owned()
    } else {
        lines.join("\n") + "\n"
    }
}

/// What a series had over the window.
struct Whole {
    sum: f64,
    readings: u64,
    max: u64,
}

/// One line each: what it is called, the mean, and the most.
fn summed<'w, T: 'w>(
    seen: &'w [Seen<T>],
    name: impl Fn(&'w T) -> String,
    figures: impl Fn(&T) -> Option<Figures>,
    show: impl Fn(f64, u64) -> String,
) -> Vec<String> {
    let mut all: BTreeMap<String, Whole> = BTreeMap::new();
    for one in seen {
        let Some(figures) = figures(&one.what) else {
            continue;
        };
        let whole = all.entry(name(&one.what)).or_insert(Whole {
            sum: 0.0,
            readings: 0,
            max: 0,
        });
        whole.sum += figures.mean * one.readings as f64;
        whole.readings += one.readings;
        whole.max = whole.max.max(figures.max);
    }
    let width = all.keys().map(String::len).max().unwrap_or(0);
    let line = |(name, whole): (&String, &Whole)| {
        let mean = whole.sum / whole.readings.max(1) as f64;
        format!("{name:width$}  {}", show(mean, whole.max))
    };
    all.iter().map(line).collect()
}

fn rates(mean: f64, max: u64) -> String {
    let rate = Rate::from_bits_per_s;
    format!(
        "mean {:>10}  most {:>10}",
        rate(mean.round() as u64).to_string(),
        rate(max).to_string()
    )
}

fn times(mean: f64, max: u64) -> String {
    format!("mean {:.1} us  most {:.1} us", mean / 1e3, max as f64 / 1e3)
}

fn links(window: &Window) -> Vec<String> {
    let name = |link: &reweave_history::LinkSeen| {
        let to = link.to_node.as_deref().unwrap_or("?");
        format!("{} > {to} ({})", link.node, link.interface)
    };
    summed(&window.links, name, |link| link.send_bits_per_s, rates)
}

fn flows(window: &Window) -> Vec<String> {
    let name = |seen: &reweave_history::FlowSeen| {
        let to = seen.to_node.as_deref().unwrap_or("?");
        format!("{} > {to}  {}", seen.node, seen.flow)
    };
    summed(&window.flows, name, |flow| flow.rate_bits_per_s, rates)
}

fn probes(window: &Window) -> Vec<String> {
    let name = |seen: &reweave_history::ProbesSeen| {
        let to = seen.to_node.as_deref().unwrap_or("?");
        format!("{} > {to}  {}", seen.node, seen.flow)
    };
    summed(&window.probes, name, |seen| seen.median_ns, times)
}

fn agents(window: &Window) -> Vec<String> {
    let share = |mean: f64, _| format!("connected {:.1} % of the time", mean * 100.0);
    summed(
        &window.agents,
        |agent| agent.node.clone(),
        |agent| agent.connected,
        share,
    )
}
