//! `reweave plan tuner`: how collectives of each size are best done.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use reweave_common::units::Rate;
use reweave_planner::tuning::{self, Calibration, Choice, Sweep};
use serde::Serialize;

use crate::error::CliError;
use crate::page::Page;
use crate::sim::collective::Op;
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
    op: Op,
    /// Up to this size
    #[arg(long, value_name = "BYTES", default_value_t = 1e9)]
    most_bytes: f64,
    /// What one channel of the library copies at most
    #[arg(long, value_name = "GBPS", default_value = "160", value_parser = rate)]
    channel_gbps: Rate,
    /// How many ranks each host has
    #[arg(long, value_name = "N", default_value_t = 1)]
    ranks_per_host: usize,
    /// What nccl-tests printed on this fabric; simulated times are fitted to it
    #[arg(long, value_name = "FILE")]
    measured: Option<PathBuf>,
}

#[derive(Serialize)]
struct Answer {
    shift_us: f64,
    stretch: f64,
    choices: Vec<Size>,
    /// The table, in the form of NCCL's tuner plugins.
    csv: String,
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
        let sizes = std::iter::successors(Some(LEAST_BYTES), |bytes| Some(bytes * STEP));
        let mut sweep = Sweep {
            fabric: &fabric,
            operation: self.op.into(),
            sizes: sizes
                .take_while(|&bytes| bytes <= self.most_bytes)
                .collect(),
            channel: self.channel_gbps,
            calibration: Calibration::default(),
            limit: WORK,
        };
        sweep.calibration = self.calibration(&sweep)?;
        let choices = tuning::sweep(&sweep).map_err(CliError::Collective)?;
        let hosts = fabric.endpoints().count();
        let ranks = hosts * self.ranks_per_host;
        let csv = tuning::csv(sweep.operation, hosts, ranks, &tuning::table(&choices));
        let answer = Answer {
            shift_us: sweep.calibration.shift_us,
            stretch: sweep.calibration.stretch,
            choices: choices.iter().map(Size::from).collect(),
            csv,
        };
        print(output, &answer, |page| lay_out(page, &answer))
    }

    /// Measured are what the library chose by itself: the fastest, as far as the sweep knows.
    fn calibration(&self, sweep: &Sweep<'_>) -> Result<Calibration, CliError> {
        let Some(path) = &self.measured else {
            return Ok(Calibration::default());
        };
        let measured = tuning::read(&path.display().to_string(), &input::text(path)?);
        let measured = measured.map_err(CliError::Input)?;
        let same = Sweep {
            sizes: measured.iter().map(|it| it.bytes).collect(),
            ..sweep.clone()
        };
        let simulated = tuning::sweep(&same).map_err(CliError::Collective)?;
        let pairs = simulated
            .iter()
            .zip(&measured)
            .map(|(a, b)| (a.time_us, b.time_us));
        let fitted = Calibration::fit(&pairs.collect::<Vec<_>>());
        fitted.ok_or_else(|| CliError::NothingMeasured { path: path.clone() })
    }
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
