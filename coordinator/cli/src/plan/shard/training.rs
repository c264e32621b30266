//! A job file as something that can run on any number of servers.

use std::path::Path;

use reweave_common::ids::NodeId;
use reweave_planner::cluster::{Spread, Training, Unfit};
use reweave_planner::workload::job::PresetJob;
use reweave_planner::workload::job::preset::Batch;

use crate::error::CliError;
use crate::plan::topology::{hosts, place};
use crate::work::{Kind, Source};

#[derive(Debug)]
pub(super) struct Trained {
    key: String,
    source: Source,
}

impl Trained {
    pub(super) fn read(file: &Path) -> Result<Self, CliError> {
        Ok(Self {
            key: file.display().to_string(),
            source: Source::read(file)?,
        })
    }
}

impl Training for Trained {
    fn key(&self) -> &str {
        &self.key
    }

    fn on(&self, servers: usize) -> Result<Spread, Unfit> {
        let work = self.source.work(hosts(servers));
        let work = work.map_err(|error| Unfit(error.told()))?;
        let ranks = work.iteration.ranks();
        let used = work.placement[..ranks]
            .last()
            .map_or(0, |host: &NodeId| host.index() + 1);
        if used < servers {
            return Err(Unfit(format!(
                "it has work for {used} servers only: ask for {used}"
            )));
        }
        let (samples, memory) = match &self.source.kind {
            Kind::Operators { model, .. } => (model.batch as f64, None),
            Kind::Preset(job) => (samples(job, ranks), job.preset.memory(ranks).ok().flatten()),
        };
        Ok(Spread {
            server: place(&work),
            iteration: work.iteration,
            settings: work.settings,
            samples,
            memory,
        })
    }
}

/// What all replicas learn from together.
fn samples(job: &PresetJob, ranks: usize) -> f64 {
    let spread = &job.preset.parallelism;
    let replicas = spread
        .data
        .unwrap_or(ranks / (spread.tensor * spread.pipeline));
    match job.preset.batch {
        Batch::Whole(batch) => batch as f64,
        Batch::PerReplica(batch) => batch as f64 * replicas as f64,
    }
}
