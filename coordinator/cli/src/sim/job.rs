//! `reweave sim job`: a workload on a fabric, what an iteration takes and why.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use reweave_common::carriage::Carriage;
use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;
use reweave_common::iteration::Iteration;
use reweave_formats::topoopt;
use reweave_planner::workload::job::JobFile;
use reweave_planner::workload::{self, Network, Settings};

use super::progress::Progress;
use super::{MOST_WORK, input, show};
use crate::error::CliError;
use crate::{Output, print};

/// What an iteration of a job takes on a fabric, and why
#[derive(Debug, Args)]
pub(crate) struct Job {
    /// The job file: a preset, or operators with their profile
    job: PathBuf,
    /// The fabric file
    #[arg(long)]
    fabric: PathBuf,
}

impl Job {
    pub(crate) fn run(&self, output: Output) -> Result<ExitCode, CliError> {
        let fabric = Fabric::parse(&name(&self.fabric), &input::text(&self.fabric)?)
            .map_err(CliError::Input)?;
        let hosts: Vec<_> = fabric.endpoints().collect();
        let iteration = self.iteration(hosts.len())?;
        let answer = simulate(&iteration, &fabric, &hosts)?;
        print(output, &answer, |page| show::iteration(page, &answer))
    }

    fn iteration(&self, hosts: usize) -> Result<Iteration, CliError> {
        let job = JobFile::parse(&name(&self.job), &input::text(&self.job)?);
        let JobFile::Operators { model, profile } = job.map_err(CliError::Input)?;
        let path = self.job.parent().unwrap_or(Path::new("")).join(profile);
        let timings = topoopt::read_profile(&input::text(&path)?);
        let timings = timings.map_err(|source| CliError::Profile { path, source })?;
        let bad_job = |source| CliError::Job {
            path: self.job.clone(),
            source,
        };
        let splits = model.data_parallel(&timings, hosts).map_err(bad_job)?;
        model.iteration(&timings, &splits, hosts).map_err(bad_job)
    }
}

fn name(path: &Path) -> String {
    path.display().to_string()
}

fn simulate(
    iteration: &Iteration,
    fabric: &Fabric,
    hosts: &[NodeId],
) -> Result<show::Answer, CliError> {
    let carriage = Carriage::default();
    let network = Network::new(fabric, hosts, &carriage, Settings::default());
    let mut progress = Progress::begin();
    let evaluation = workload::evaluate(iteration, &network, MOST_WORK, &mut |at| {
        progress.see(at);
    });
    let wall_ms = progress.end();
    Ok(show::Answer::new(
        evaluation.map_err(CliError::Simulation)?,
        wall_ms,
    ))
}
