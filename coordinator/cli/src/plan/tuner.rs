//! `reweave plan tuner`: how collectives of each size are best done.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use reweave_common::iteration::Operation;
use reweave_common::units::Rate;
use reweave_planner::tuning::{
    self, ALGORITHMS, Calibration, Calibrations, Choice, Combination, PROTOCOLS, Printed, Sweep,
};
use serde::Serialize;

use crate::error::CliError;
use crate::page::{Page, tell};
use crate::sim::input;
use crate::sim::replay::rate;
use crate::{Output, print};

/// For each simulation: some seconds.
const WORK: u64 = 200_000_000;
const LEAST_BYTES: f64 = 1024.0;
/// Each size is so many times the one before.
const STEP: f64 = 4.0;

#[derive(Debug, Args)]
pub(crate) struct Tuner {
    /// The fabric; all its hosts take part
    #[arg(long, value_name = "FABRIC")]
    fabric: PathBuf,
    /// What they do
    #[arg(long, value_enum, default_value = "allreduce")]
    op: Tuned,
    /// Up to this size
    #[arg(long, value_name = "BYTES", default_value_t = 1e9)]
    most_bytes: f64,
    /// What one channel of the library copies at most
    #[arg(long, value_name = "GBPS", default_value = "160", value_parser = rate)]
    channel_gbps: Rate,
    /// How many ranks each host has
    #[arg(long, value_name = "N", default_value_t = 1)]
    ranks_per_host: u32,
    /// What nccl-tests printed on this fabric, by which simulated times are calibrated: FILE, or, where
    /// NCCL_ALGO and NCCL_PROTO bound the library, as in ring/ll=FILE; may be repeated
    #[arg(long, value_name = "[ALGO/PROTO=]FILE")]
    measured: Vec<String>,
}

/// Collectives that a tuner has a choice for.
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

/// A fit that is off by more does not tell of this fabric.
const POOR: f64 = 0.25;

#[derive(Serialize)]
struct Answer {
    calibrations: Vec<Fitted>,
    choices: Vec<Size>,
    /// The table, in the form of NCCL's tuner plugins.
    csv: String,
}

/// How many times as long as simulated it takes.
#[derive(Serialize)]
struct Fitted {
    /// All that were not measured by themselves, where none is named.
    combination: Option<String>,
    latency: f64,
    wire: f64,
    off_percent: f64,
}

#[derive(Serialize)]
struct Size {
    bytes: f64,
    algorithm: String,
    protocol: &'static str,
    channels: u32,
    time_us: f64,
}

impl Tuner {
    pub(super) fn run(&self, output: Output) -> Result<ExitCode, CliError> {
        let fabric = input::fabric(&self.fabric)?;
        if !(LEAST_BYTES..=1e12).contains(&self.most_bytes) {
            return Err(CliError::BadOption {
                option: "--most-bytes",
                value: self.most_bytes,
            });
        }
        if self.ranks_per_host == 0 {
            return Err(CliError::BadOption {
                option: "--ranks-per-host",
                value: 0.0,
            });
        }
        let mut sweep = Sweep {
            fabric: &fabric,
            operation: self.op.into(),
            sizes: self.sizes(),
            channel: self.channel_gbps,
            ranks_per_host: self.ranks_per_host as usize,
            calibrations: Calibrations::default(),
            limit: WORK,
        };
        for text in &self.measured {
            self.calibrate(&mut sweep, text)?;
        }
        let choices = tuning::sweep(&sweep).map_err(CliError::Collective)?;
        let hosts = fabric.endpoints().count();
        let ranks = hosts * sweep.ranks_per_host;
        let csv = tuning::csv(sweep.operation, hosts, ranks, &tuning::table(&choices));
        let answer = Answer {
            calibrations: fitted(&sweep.calibrations),
            choices: choices.iter().map(Size::from).collect(),
            csv,
        };
        print(output, &answer, |page| lay_out(page, &answer))
    }

    fn sizes(&self) -> Vec<f64> {
        let sizes = std::iter::successors(Some(LEAST_BYTES), |bytes| Some(bytes * STEP));
        let smaller = sizes.take_while(|&bytes| bytes < self.most_bytes);
        smaller.chain([self.most_bytes]).collect()
    }

    fn calibrate(&self, sweep: &mut Sweep<'_>, text: &str) -> Result<(), CliError> {
        let named = text
            .split_once('=')
            .and_then(|(name, path)| Some((combination(name)?, path)));
        let (only, path) = named.map_or((None, text), |(only, path)| (Some(only), path));
        let path = PathBuf::from(path);
        let printed = tuning::read(&path.display().to_string(), &input::text(&path)?);
        let printed = printed.map_err(CliError::Input)?;
        let found = tuning::calibrate(sweep, &printed.lines, only).map_err(CliError::Collective)?;
        let found = found.ok_or_else(|| CliError::NothingMeasured { path: path.clone() })?;
        for doubt in doubts(sweep, &printed, &found) {
            tell(&format!("{}: {doubt}", path.display()));
        }
        match only {
            Some(only) => sweep.calibrations.of.push((only, found)),
            None => sweep.calibrations.general = found,
        }
        Ok(())
    }
}

fn name((algorithm, protocol): Combination) -> String {
    format!("{algorithm}/{}", protocol.word())
}

fn combination(named: &str) -> Option<Combination> {
    let all = ALGORITHMS
        .into_iter()
        .flat_map(|it| PROTOCOLS.map(|protocol| (it, protocol)));
    all.into_iter().find(|&it| name(it) == named)
}

fn doubts(sweep: &Sweep<'_>, printed: &Printed, found: &Calibration) -> Vec<String> {
    let program = format!("{}_perf", sweep.operation.name().replace('-', "_"));
    let other = printed
        .operation
        .iter()
        .filter(|&operation| *operation != program);
    let other = other.map(|operation| format!("{operation} was measured, and {program} is asked"));
    let ranks = sweep.fabric.endpoints().count() * sweep.ranks_per_host;
    let fewer = printed.ranks.iter().filter(|&&measured| measured != ranks);
    let fewer =
        fewer.map(|measured| format!("{measured} ranks were measured, and {ranks} are asked"));
    let poor = (found.off > POOR).then(|| {
        let off = 100.0 * found.off;
        format!("what was measured is {off:.0} % off what this fabric could be, however it is calibrated")
    });
    other.chain(fewer).chain(poor).collect()
}

fn fitted(calibrations: &Calibrations) -> Vec<Fitted> {
    let fitted = |combination: Option<String>, found: &Calibration| Fitted {
        combination,
        latency: found.latency,
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
        Self {
            bytes: choice.bytes,
            algorithm: choice.algorithm.to_string(),
            protocol: choice.protocol.word(),
            channels: choice.channels,
            time_us: choice.time_us,
        }
    }
}

/// The table alone: it is for a file.
fn lay_out(page: &mut Page, answer: &Answer) {
    answer.csv.lines().for_each(|line| page.line(line));
}
