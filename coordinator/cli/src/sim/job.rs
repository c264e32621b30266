//! `reweave sim job`: a workload on a fabric, what an iteration takes and why.

use std::iter::repeat_n;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use reweave_common::carriage::Carriage;
use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;
use reweave_common::iteration::Iteration;
use reweave_formats::topoopt;
use reweave_planner::workload::Settings;
use reweave_planner::workload::job::operators::Model;
use reweave_planner::workload::job::{JobFile, PresetJob};

use super::input;
use super::run::{Scene, Uncertainty};
use crate::Output;
use crate::error::CliError;

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
        let work = self.work(&fabric)?;
        let scene = Scene {
            iteration: &work.iteration,
            fabric: &fabric,
            placement: &work.placement,
            carriage: &Carriage::default(),
            settings: work.settings,
        };
        scene.simulate(&self.uncertainty, output)
    }

    fn work(&self, fabric: &Fabric) -> Result<Work, CliError> {
        let hosts: Vec<_> = fabric.endpoints().collect();
        let job = JobFile::parse(&name(&self.job), &input::text(&self.job)?);
        match job.map_err(CliError::Input)? {
            JobFile::Operators { model, profile } => self.operators(&model, &profile, hosts),
            JobFile::Preset(job) => self.preset(&job, &hosts),
        }
    }

    fn operators(
        &self,
        model: &Model,
        profile: &str,
        hosts: Vec<NodeId>,
    ) -> Result<Work, CliError> {
        let path = self.job.parent().unwrap_or(Path::new("")).join(profile);
        let timings = topoopt::read_profile(&input::text(&path)?);
        let timings = timings.map_err(|source| CliError::Profile { path, source })?;
        let bad_job = |source| CliError::Operators {
            path: self.job.clone(),
            source,
        };
        let splits = model.data_parallel(&timings, hosts.len());
        let splits = splits.map_err(bad_job)?;
        let iteration = model.iteration(&timings, &splits, hosts.len());
        Ok(Work {
            iteration: iteration.map_err(bad_job)?,
            placement: hosts,
            settings: Settings::default(),
        })
    }

    fn preset(&self, job: &PresetJob, hosts: &[NodeId]) -> Result<Work, CliError> {
        let each = job.preset.gpus_per_host;
        let placement: Vec<_> = hosts
            .iter()
            .flat_map(|&host| repeat_n(host, each))
            .collect();
        let iteration = job.preset.iteration(placement.len());
        let iteration = iteration.map_err(|source| CliError::Preset {
            path: self.job.clone(),
            source,
        })?;
        Ok(Work {
            iteration,
            placement,
            settings: Settings {
                inside: job.inside,
                ..Settings::default()
            },
        })
    }
}

/// An iteration, and where its ranks run.
struct Work {
    iteration: Iteration,
    placement: Vec<NodeId>,
    settings: Settings,
}

fn name(path: &Path) -> String {
    path.display().to_string()
}
