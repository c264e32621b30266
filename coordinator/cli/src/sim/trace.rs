//! `reweave sim trace`: what recorders wrote down of a job, on a fabric.

use std::iter::repeat_n;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use reweave_common::carriage::Carriage;
use reweave_common::ids::Rank;
use reweave_common::iteration::Iteration;
use reweave_common::recorded::Recorded;
use reweave_formats::{chakra, flight_recorder, nccl_inspector};
use reweave_planner::workload::job::Work;
use reweave_planner::workload::{Settings, recorded};

use super::input;
use super::run::{Scene, Uncertainty};
use super::variants::{Allowed, Base};
use crate::Output;
use crate::error::CliError;

/// What recorders wrote down of a job, on a fabric
#[derive(Debug, Args)]
pub(crate) struct Trace {
    /// Who wrote the files
    #[arg(long, value_enum)]
    format: Format,
    /// One file for each rank, in their order
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The fabric file
    #[arg(long)]
    fabric: PathBuf,
    /// How many ranks run on each host
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    gpus_per_host: u16,
    /// Compare with an iteration when this is otherwise, as `sim history` does; may be repeated
    #[arg(
        long = "with",
        value_name = "VARIANT.toml",
        conflicts_with = "interval"
    )]
    variants: Vec<PathBuf>,
    #[command(flatten)]
    allowed: Allowed,
    #[command(flatten)]
    uncertainty: Uncertainty,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// Chakra execution traces
    Chakra,
    /// Dumps of PyTorch's flight recorder, as pickle or JSON
    FlightRecorder,
    /// What NCCL's Inspector plugin writes
    NcclInspector,
}

impl Trace {
    pub(crate) fn run(&self, output: Output) -> Result<ExitCode, CliError> {
        let fabric = input::fabric(&self.fabric)?;
        let files: Vec<_> = self.files.iter().map(|path| input::bytes(path)).collect();
        let files: Vec<_> = files.into_iter().collect::<Result<_, _>>()?;
        let iteration = match self.format {
            Format::Chakra => chakra_iteration(&files)?,
            Format::FlightRecorder => joined(files.len(), &self.dumps(&files)?)?,
            Format::NcclInspector => joined(files.len(), &self.inspected(&files)?)?,
        };
        let each = usize::from(self.gpus_per_host);
        let hosts = fabric.endpoints();
        let placement: Vec<_> = hosts.flat_map(|host| repeat_n(host, each)).collect();
        let work = Work {
            iteration,
            placement,
            settings: Settings::default(),
        };
        if !self.variants.is_empty() {
            return self.compare(&work, output);
        }
        let scene = Scene {
            iteration: &work.iteration,
            fabric: &fabric,
            placement: &work.placement,
            carriage: &Carriage::default(),
            settings: work.settings,
        };
        let answer = scene.simulate(&self.uncertainty, output);
        answer.map_err(|error| error.on(&self.fabric))
    }

    fn compare(&self, work: &Work, output: Output) -> Result<ExitCode, CliError> {
        let base = Base {
            fabric: Some(&self.fabric),
            job: None,
        };
        let variants = base.read_all(&self.variants)?;
        let answers = variants.iter().map(|it| it.played_job(work, None));
        let answers: Vec<_> = answers.collect::<Result<_, _>>()?;
        self.allowed.judged(&answers, output)
    }

    fn dumps(&self, files: &[Vec<u8>]) -> Result<Vec<Recorded>, CliError> {
        let mut records = Vec::new();
        for (rank, (path, bytes)) in self.files.iter().zip(files).enumerate() {
            let dump = flight_recorder::read(Rank::from_index(rank), bytes);
            records.extend(dump.map_err(|source| CliError::FlightRecorder {
                path: path.clone(),
                source,
            })?);
        }
        Ok(records)
    }

    fn inspected(&self, files: &[Vec<u8>]) -> Result<Vec<Recorded>, CliError> {
        let text = |(path, bytes): (&PathBuf, &Vec<u8>)| as_text(path, bytes);
        let texts = self.files.iter().zip(files).map(text);
        let texts: Vec<_> = texts.collect::<Result<_, _>>()?;
        let slices: Vec<_> = texts.iter().map(String::as_str).collect();
        nccl_inspector::read(&slices).map_err(CliError::Inspector)
    }
}

fn as_text(path: &Path, bytes: &[u8]) -> Result<String, CliError> {
    let text = String::from_utf8(bytes.to_vec());
    text.map_err(|source| CliError::NotText {
        path: path.to_owned(),
        source: source.utf8_error(),
    })
}

fn chakra_iteration(files: &[Vec<u8>]) -> Result<Iteration, CliError> {
    let slices: Vec<_> = files.iter().map(Vec::as_slice).collect();
    chakra::read(&slices).map_err(CliError::Chakra)
}

fn joined(ranks: usize, records: &[Recorded]) -> Result<Iteration, CliError> {
    recorded::iteration(ranks, records).map_err(CliError::Recorded)
}
