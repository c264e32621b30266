//! `reweave sim job`: iteration time of a workload on a fabric, and its causes.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use reweave_common::explicit_paths::ExplicitPaths;
use reweave_sim::workload::job::JobFile;

use super::input;
use super::run::{Scene, Uncertainty};
use super::variants::{Allowed, Base, Read};
use crate::Output;
use crate::error::CliError;
use crate::work::Source;

/// Iteration time of a job on a fabric, and its causes
#[derive(Debug, Args)]
pub(crate) struct Job {
    /// Job file: a preset, or operators with their profile
    job: PathBuf,
    /// Fabric file
    #[arg(long)]
    fabric: PathBuf,
    /// Compare with this variant, as `sim history` does; may be repeated
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

impl Job {
    pub(crate) fn run(&self, output: Output) -> Result<ExitCode, CliError> {
        if !self.variants.is_empty() {
            return self.compare(output);
        }
        let fabric = input::lit(&self.fabric)?;
        let work = Source::read(&self.job)?.work(fabric.endpoints().collect())?;
        let scene = Scene {
            iteration: &work.iteration,
            fabric: &fabric,
            placement: &work.placement,
            carriage: &ExplicitPaths::default(),
            settings: work.settings,
        };
        let answer = scene.simulate(&self.uncertainty, output);
        answer.map_err(|error| error.on(&self.fabric))
    }
    fn compare(&self, output: Output) -> Result<ExitCode, CliError> {
        let fabric = input::lit(&self.fabric)?;
        let (name, text) = (self.job.display().to_string(), input::text(&self.job)?);
        let job = JobFile::parse(&name, &text).map_err(CliError::Input)?;
        let work = |source: Source| source.work(fabric.endpoints().collect());
        let job = work(Source::of(&self.job, job)?)?;
        let base = Base {
            fabric: Some(&self.fabric),
            job: Some([&name, &text]),
            ..Base::default()
        };
        let played = |mut read: Read| {
            let changed = read.job.take().map(|it| Source::of(&self.job, it));
            let changed = changed.transpose()?.map(|it| it.blamed_on(read.path()));
            read.played_job(&job, changed.map(work).transpose()?.as_ref())
        };
        let answers = base.read_all(&self.variants)?.into_iter().map(played);
        let answers: Vec<_> = answers.collect::<Result<_, _>>()?;
        self.allowed.judged(&answers, output)
    }
}
