//! Job files, and the workloads that they describe.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use reweave_common::ids::{NodeId, Rank};
use reweave_common::timings::Timings;
use reweave_design::parallel::presets;
use reweave_formats::topoopt;
use reweave_sim::workload::job::operators::{Model, OperatorError, Split};
use reweave_sim::workload::job::preset::{Parallelism, PresetError};
use reweave_sim::workload::job::{JobFile, Losses, PresetJob, Work};
use reweave_sim::workload::{Choices, Settings};

use crate::error::CliError;
use crate::sim::input;

/// Content of a job file, with its timings.
#[derive(Debug)]
pub(crate) struct Source {
    file: PathBuf,
    pub(crate) kind: Kind,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Operators {
        model: Model,
        timings: Timings,
        choices: Choices,
    },
    Preset(PresetJob),
}

/// Distribution of a job over hosts.
#[derive(Debug, Clone)]
pub(crate) enum Deal {
    AsItsFileSays,
    Splits(Vec<Split>),
    Spread(Parallelism),
}

impl Source {
    pub(crate) fn read(file: &Path) -> Result<Self, CliError> {
        let job = JobFile::parse(&file.display().to_string(), &input::text(file)?);
        Self::of(file, job.map_err(CliError::Input)?)
    }

    /// Reads the content of this file, with the timings that it names.
    pub(crate) fn of(file: &Path, job: JobFile) -> Result<Self, CliError> {
        let kind = match job {
            JobFile::Operators {
                model,
                profile,
                choices,
            } => Kind::Operators {
                timings: timings(file, &profile, model.batch)?,
                model,
                choices,
            },
            JobFile::Preset(job) => Kind::Preset(job),
        };
        Ok(Self {
            file: file.to_owned(),
            kind,
        })
    }

    /// Returns the same source; errors name another file.
    pub(crate) fn blamed_on(self, file: &Path) -> Self {
        Self {
            file: file.to_owned(),
            ..self
        }
    }

    /// Returns the job on these hosts, with the parallelism of its file.
    pub(crate) fn work(&self, hosts: Vec<NodeId>) -> Result<Work, CliError> {
        match &self.kind {
            Kind::Operators { model, timings, .. } => {
                let splits = model.data_parallel(timings, hosts.len());
                self.split(hosts, &splits.map_err(|source| self.bad_operators(source))?)
            }
            Kind::Preset(job) => self.preset(job, &hosts),
        }
    }

    pub(crate) fn dealt(&self, hosts: Vec<NodeId>, deal: &Deal) -> Result<Work, CliError> {
        match deal {
            Deal::AsItsFileSays => self.work(hosts),
            Deal::Splits(splits) => self.split(hosts, splits),
            Deal::Spread(parallelism) => self.spread(hosts, *parallelism),
        }
    }

    /// Returns what is lost when some of this number of hosts fail.
    pub(crate) fn losses(
        &self,
        hosts: usize,
        deal: &Deal,
        dead: &BTreeSet<u32>,
    ) -> Result<Losses, CliError> {
        match &self.kind {
            Kind::Operators { model, timings, .. } => {
                let dead = dead.iter().map(|&host| Rank::from_index(host as usize));
                let dead = dead.collect();
                if let Deal::Splits(splits) = deal {
                    return Ok(model.losses(splits, &dead));
                }
                let splits = model.data_parallel(timings, hosts);
                let splits = splits.map_err(|source| self.bad_operators(source))?;
                Ok(model.losses(&splits, &dead))
            }
            Kind::Preset(job) => {
                let preset = match deal {
                    Deal::Spread(parallelism) => {
                        presets::Search::new(&job.preset, hosts, None).spread(*parallelism)
                    }
                    _ => job.preset.clone(),
                };
                let each = preset.gpus_per_host;
                let of_host = |&host: &u32| {
                    let first = host as usize * each;
                    (first..first + each).map(Rank::from_index)
                };
                let dead = dead.iter().flat_map(of_host).collect();
                let losses = preset.losses(hosts * each, &dead);
                losses.map_err(|source| self.bad_preset(source))
            }
        }
    }

    /// Returns a preset on these hosts with this parallelism. The batch over all replicas stays as the file says.
    pub(crate) fn spread(
        &self,
        hosts: Vec<NodeId>,
        parallelism: Parallelism,
    ) -> Result<Work, CliError> {
        let Kind::Preset(job) = &self.kind else {
            return self.work(hosts);
        };
        let search = presets::Search::new(&job.preset, hosts.len(), None);
        let job = PresetJob {
            preset: search.spread(parallelism),
            ..job.clone()
        };
        self.preset(&job, &hosts)
    }

    /// Returns a model of operators on these hosts, split as given.
    pub(crate) fn split(&self, hosts: Vec<NodeId>, splits: &[Split]) -> Result<Work, CliError> {
        let Kind::Operators { model, timings, .. } = &self.kind else {
            return self.work(hosts);
        };
        let iteration = model.iteration(timings, splits, hosts.len());
        Ok(Work {
            iteration: iteration.map_err(|source| self.bad_operators(source))?,
            placement: hosts,
            settings: self.settings(),
        })
    }

    /// Returns the algorithms of its collectives, and the rate between GPUs of a host.
    pub(crate) fn settings(&self) -> Settings {
        match &self.kind {
            Kind::Operators { choices, .. } => Settings {
                choices: choices.clone(),
                ..Settings::default()
            },
            Kind::Preset(job) => job.settings(),
        }
    }

    fn preset(&self, job: &PresetJob, hosts: &[NodeId]) -> Result<Work, CliError> {
        job.work(hosts).map_err(|source| self.bad_preset(source))
    }

    fn bad_preset(&self, source: PresetError) -> CliError {
        CliError::Preset {
            path: self.file.clone(),
            source,
        }
    }

    pub(crate) fn bad_operators(&self, source: OperatorError) -> CliError {
        CliError::Operators {
            path: self.file.clone(),
            source,
        }
    }
}

fn timings(file: &Path, profile: &str, batch: u64) -> Result<Timings, CliError> {
    let path = file.parent().unwrap_or(Path::new("")).join(profile);
    let timings = topoopt::read_profile(&input::text(&path)?, batch);
    timings.map_err(|source| CliError::Profile { path, source })
}
