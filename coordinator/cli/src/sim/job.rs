//! `reweave sim job`: a workload on a fabric, what an iteration takes and why.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use reweave_common::carriage::Carriage;

use super::input;
use super::run::{Scene, Uncertainty};
use crate::Output;
use crate::error::CliError;
use crate::work::Source;

/// What an iteration of a job takes on a fabric, and why
#[derive(Debug, Args)]
pub(crate) struct Job {
    /// The job file: a preset, or operators with their profile
    job: PathBuf,
    /// The fabric file
    #[arg(long)]
    fabric: PathBuf,
    #[command(flatten)]
    uncertainty: Uncertainty,
}

impl Job {
    pub(crate) fn run(&self, output: Output) -> Result<ExitCode, CliError> {
        let fabric = input::fabric(&self.fabric)?;
        let work = Source::read(&self.job)?.work(fabric.endpoints().collect())?;
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
}
