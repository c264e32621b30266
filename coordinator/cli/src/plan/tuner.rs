//! `reweave plan tuner`: best algorithm and protocol per collective size.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use reweave_common::fabric::Fabric;
use reweave_common::iteration::Operation;
use reweave_common::units::Rate;
use reweave_sim::tuning::{
    self, ALGORITHMS, Calibration, Calibrations, Choice, Combination, DEFAULT_CHANNEL_COUNTS,
    Ground, PROTOCOLS, Printed, Rival, Run, Survey,
};
use serde::Serialize;

use super::measured::Cluster;
use crate::ask::Reach;
use crate::error::CliError;
use crate::page::Page;
use crate::report::Report;
use crate::sim::input;
use crate::sim::replay::rate;
use crate::voice::print_note;
use crate::{Output, print_report};

/// Work limit per simulation: some seconds.
const MAX_SIMULATION_WORK: u64 = 200_000_000;
/// Default copy rate of one channel.
const DEFAULT_CHANNEL_RATE: Rate = Rate::from_bits_per_s(160_000_000_000);
/// Default start-up time in us that each further channel adds to a step.
const DEFAULT_CHANNEL_START_US: f64 = 0.4;
const MIN_MESSAGE_BYTES: f64 = 1024.0;
/// Ratio of consecutive sizes.
const SIZE_FACTOR: f64 = 4.0;

#[derive(Debug, Args)]
pub(crate) struct Tuner {
    /// Fabric file; all its hosts take part [default: the coordinator's fabric, as it is now]
    #[arg(long, value_name = "FABRIC")]
    fabric: Option<PathBuf>,
    /// Collective
    #[arg(long, value_enum, default_value = "allreduce")]
    op: Tuned,
    /// Maximum size
    #[arg(long, value_name = "BYTES", default_value_t = 1e9)]
    most_bytes: f64,
    /// Maximum copy rate of one channel of the library
    #[arg(long, value_name = "GBPS", default_value = "160", value_parser = rate)]
    channel_gbps: Rate,
    /// Start-up time that each further channel adds to a step, because one thread starts all channels
    #[arg(long, value_name = "US", default_value_t = DEFAULT_CHANNEL_START_US)]
    start_us: f64,
    /// Ranks per host
    #[arg(long, value_name = "N", default_value_t = 1)]
    ranks_per_host: u32,
    /// Output of nccl-tests on this fabric, to calibrate simulated times: FILE, or ring/ll=FILE if NCCL_ALGO and
    /// NCCL_PROTO bound the library, or ring/ll/4=FILE if also 4 channels did; may be repeated
    #[arg(long, value_name = "[ALGO/PROTO[/CHANNELS]=]FILE")]
    measured: Vec<String>,
}

/// Collectives for which a tuner has a choice.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Tuned {
    #[value(name = "allreduce", alias = "all-reduce")]
    AllReduce,
    #[value(name = "reducescatter", alias = "reduce-scatter")]
    ReduceScatter,
    #[value(name = "allgather", alias = "all-gather")]
    AllGather,
    Broadcast,
}

impl From<Tuned> for Operation {
    fn from(op: Tuned) -> Self {
        match op {
            Tuned::AllReduce => Self::AllReduce,
            Tuned::ReduceScatter => Self::ReduceScatter,
            Tuned::AllGather => Self::AllGather,
            Tuned::Broadcast => Self::Broadcast,
        }
    }
}

/// Maximum relative error of a fit; a worse fit is not of this fabric.
const MAX_FIT_ERROR: f64 = 0.25;

/// Maximum ranks per host: the columns of a tuner table hold at most 2^31 ranks.
const MAX_RANKS_PER_HOST: u32 = 1024;
/// Maximum number of channels, more than any library has.
const MAX_CHANNELS: u32 = 1024;

#[derive(Serialize)]
struct Answer {
    calibrations: Vec<Fitted>,
    choices: Vec<Size>,
    /// The table in the format of NCCL's tuner plugins.
    csv: String,
}

/// Ratio of measured to simulated time.
#[derive(Serialize)]
struct Fitted {
    /// Absent for the factor of all combinations without measurements of their own.
    combination: Option<String>,
    latency: f64,
    start: f64,
    wire: f64,
    off_percent: f64,
}

#[derive(Serialize)]
struct Size {
    bytes: f64,
    #[serde(flatten)]
    best: Weighed,
    why: Why,
    /// All simulated combinations with their times.
    weighed: Vec<Weighed>,
}

#[derive(Serialize)]
struct Weighed {
    algorithm: String,
    protocol: &'static str,
    channels: u32,
    time_us: f64,
}

#[derive(Serialize)]
struct Why {
    latency_percent: f64,
    /// Size per channel below which latency is more than half of the time.
    least_bytes_per_channel: f64,
    /// Ratio of the transfer time to that of evenly spread flows.
    collisions: f64,
    fewer: Option<Other>,
    more: Option<Other>,
}

#[derive(Serialize)]
struct Other {
    channels: u32,
    longer_percent: f64,
    because: &'static str,
}

/// A file of measurements, and the settings under which it was written.
struct Measured {
    path: PathBuf,
    printed: Printed,
    combination: Option<Combination>,
    channels: Option<u32>,
}

impl Tuner {
    pub(super) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        self.check()?;
        let planned = self.planned(reach, output);
        planned.map_err(|error| error.on_any(self.fabric.as_deref()))
    }

    fn planned(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let Cluster {
            fabric, remarks, ..
        } = Cluster::of(self.fabric.as_deref(), reach)?;
        remarks.iter().for_each(|remark| print_note(remark));
        let measured = self.measured.iter().map(|text| measured(text));
        let measured: Vec<_> = measured.collect::<Result<_, _>>()?;
        let ground = Ground {
            fabric: &fabric,
            operation: self.op.into(),
            channels: channels(&measured),
            channel: self.channel_gbps,
            start_us: self.start_us,
            ranks_per_host: self.ranks_per_host as usize,
            limit: MAX_SIMULATION_WORK,
        };
        let survey = Survey::of(&ground).map_err(CliError::Collective)?;
        let calibrations = calibrations(&ground, &survey, &measured)?;
        let choices = survey.sweep(&self.sizes(), &calibrations);
        let choices = choices.map_err(CliError::Collective)?;
        let csv = tuning::csv(
            ground.operation,
            ground.hosts(),
            ground.hosts() * ground.ranks_per_host,
            &tuning::table(&choices),
        );
        let answer = Answer {
            calibrations: fitted(&calibrations),
            choices: choices.iter().map(Size::from).collect(),
            csv,
        };
        print_report(output, &answer)
    }

    fn check(&self) -> Result<(), CliError> {
        let options = [
            (
                "--most-bytes",
                self.most_bytes,
                (MIN_MESSAGE_BYTES..=1e12).contains(&self.most_bytes),
            ),
            (
                "--start-us",
                self.start_us,
                (0.0..=1e6).contains(&self.start_us),
            ),
            (
                "--ranks-per-host",
                f64::from(self.ranks_per_host),
                (1..=MAX_RANKS_PER_HOST).contains(&self.ranks_per_host),
            ),
        ];
        match options.into_iter().find(|(.., is_good)| !is_good) {
            Some((option, value, _)) => Err(CliError::BadOption { option, value }),
            None => Ok(()),
        }
    }

    fn sizes(&self) -> Vec<f64> {
        let sizes =
            std::iter::successors(Some(MIN_MESSAGE_BYTES), |bytes| Some(bytes * SIZE_FACTOR));
        let smaller = sizes.take_while(|&bytes| bytes < self.most_bytes);
        smaller.chain([self.most_bytes]).collect()
    }
}

/// Returns the fastest combination for all-reduces of this size, with default figures and without measurements.
pub(crate) fn quickest(
    fabric: &Fabric,
    ranks_per_host: usize,
    bytes: f64,
) -> Result<Option<Combination>, CliError> {
    let ground = Ground {
        fabric,
        operation: Operation::AllReduce,
        channels: DEFAULT_CHANNEL_COUNTS.to_vec(),
        channel: DEFAULT_CHANNEL_RATE,
        start_us: DEFAULT_CHANNEL_START_US,
        ranks_per_host,
        limit: MAX_SIMULATION_WORK,
    };
    let survey = Survey::of(&ground).map_err(CliError::Collective)?;
    let choices = survey.sweep(&[bytes], &Calibrations::default());
    let choices = choices.map_err(CliError::Collective)?;
    let best = choices.first().map(|choice| &choice.best);
    Ok(best.map(|it| (it.algorithm, it.protocol)))
}

fn measured(text: &str) -> Result<Measured, CliError> {
    let named = text.split_once('=');
    let bound = named.and_then(|(name, path)| Some((bound(name)?, path)));
    if named.is_some() && bound.is_none() && !Path::new(text).exists() {
        let text = text.to_owned();
        return Err(CliError::BadBound { text });
    }
    let (bound, path) = bound.map_or((None, text), |(bound, path)| (Some(bound), path));
    let path = PathBuf::from(path);
    let printed = tuning::read(&path.display().to_string(), &input::text(&path)?);
    Ok(Measured {
        path,
        printed: printed.map_err(CliError::Input)?,
        combination: bound.map(|(combination, _)| combination),
        channels: bound.and_then(|(_, channels)| channels),
    })
}

/// Returns the usual numbers of channels, and those that were measured.
fn channels(measured: &[Measured]) -> Vec<u32> {
    let measured = measured.iter().filter_map(|it| it.channels);
    let all: BTreeSet<_> = measured.chain(DEFAULT_CHANNEL_COUNTS).collect();
    all.into_iter().collect()
}

/// Fits one calibration per combination, from all its files.
fn calibrations(
    ground: &Ground<'_>,
    survey: &Survey,
    measured: &[Measured],
) -> Result<Calibrations, CliError> {
    let mut calibrations = Calibrations::default();
    for (nth, first) in measured.iter().enumerate() {
        let is_alike = |it: &&Measured| it.combination == first.combination;
        if measured[..nth].iter().any(|it| is_alike(&it)) {
            continue;
        }
        let runs = measured.iter().filter(is_alike).map(|it| Run {
            lines: it.printed.lines.clone(),
            combination: it.combination,
            channels: it.channels,
        });
        let found = survey.calibrate(&runs.collect::<Vec<_>>());
        let path = first.path.clone();
        let found = found.ok_or(CliError::NothingMeasured { path })?;
        for it in measured.iter().filter(is_alike) {
            print_doubts(ground, it, &found);
        }
        match first.combination {
            Some(only) => calibrations.of.push((only, found)),
            None => calibrations.general = found,
        }
    }
    Ok(calibrations)
}

fn name((algorithm, protocol): Combination) -> String {
    format!("{algorithm}/{}", protocol.word())
}

/// Parses `ring/ll` or `ring/ll/4`.
fn bound(named: &str) -> Option<(Combination, Option<u32>)> {
    let all = ALGORITHMS
        .into_iter()
        .flat_map(|it| PROTOCOLS.map(|protocol| (it, protocol)));
    all.into_iter().find_map(|it| {
        let rest = named.strip_prefix(&name(it))?;
        if rest.is_empty() {
            return Some((it, None));
        }
        let channels = rest.strip_prefix('/')?.parse().ok()?;
        (1..=MAX_CHANNELS)
            .contains(&channels)
            .then_some((it, Some(channels)))
    })
}

fn print_doubts(ground: &Ground<'_>, measured: &Measured, found: &Calibration) {
    for doubt in doubts(ground, &measured.printed, found) {
        print_note(&format!("{}: {doubt}", measured.path.display()));
    }
}

fn doubts(ground: &Ground<'_>, printed: &Printed, found: &Calibration) -> Vec<String> {
    let program = format!("{}_perf", ground.operation.name().replace('-', "_"));
    let other = printed
        .operation
        .iter()
        .filter(|&operation| *operation != program);
    let other = other.map(|operation| {
        format!(
            "the measurement is of {operation}, but the request \
        is for {program}"
        )
    });
    let ranks = ground.hosts() * ground.ranks_per_host;
    let fewer = printed.ranks.iter().filter(|&&measured| measured != ranks);
    let fewer = fewer.map(|measured| {
        format!(
            "the measurement has {measured} ranks, but the request has \
                                      {ranks}"
        )
    });
    let poor = (found.off > MAX_FIT_ERROR).then(|| {
        let off = 100.0 * found.off;
        format!("the measurement deviates {off:.0} % from this fabric after calibration")
    });
    other.chain(fewer).chain(poor).collect()
}

fn fitted(calibrations: &Calibrations) -> Vec<Fitted> {
    let fitted = |combination: Option<String>, found: &Calibration| Fitted {
        combination,
        latency: found.latency,
        start: found.start,
        wire: found.wire,
        off_percent: 100.0 * found.off,
    };
    let own = calibrations
        .of
        .iter()
        .map(|(of, found)| fitted(Some(name(*of)), found));
    [fitted(None, &calibrations.general)]
        .into_iter()
        .chain(own)
        .collect()
}

impl From<&Choice> for Size {
    fn from(choice: &Choice) -> Self {
        let why = &choice.why;
        Self {
            bytes: choice.bytes,
            best: Weighed::from(&choice.best),
            why: Why {
                latency_percent: why.latency_percent,
                least_bytes_per_channel: why.least_bytes_per_channel,
                collisions: why.collisions,
                fewer: why.fewer.as_ref().map(Other::from),
                more: why.more.as_ref().map(Other::from),
            },
            weighed: choice.weighed.iter().map(Weighed::from).collect(),
        }
    }
}

impl From<&tuning::Weighed> for Weighed {
    fn from(weighed: &tuning::Weighed) -> Self {
        Self {
            algorithm: weighed.algorithm.to_string(),
            protocol: weighed.protocol.word(),
            channels: weighed.channels,
            time_us: weighed.time_us,
        }
    }
}

impl From<&Rival> for Other {
    fn from(rival: &Rival) -> Self {
        Self {
            channels: rival.channels,
            longer_percent: rival.longer_percent,
            because: rival.because.words(),
        }
    }
}

/// Prints the table with its remarks, and nothing else: it is redirected to a file.
impl Report for Answer {
    fn lay_out(&self, page: &mut Page) {
        self.csv.lines().for_each(|line| page.line(line));
    }
}
