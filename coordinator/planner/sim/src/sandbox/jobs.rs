//! Comparison of an iteration of the same job in the original and in the variant.

use std::collections::BTreeMap;

use reweave_common::explicit_paths::{ExplicitPaths, NodePath};
use reweave_common::fabric::Fabric;
use reweave_common::ids::{LinkId, NodeId};
use serde::Serialize;

use super::compared::{MAX_FULLEST_LINKS, slower_percent};
use super::variant::Routes;
use super::{Effort, Fullest, SandboxError, Variant};
use crate::workload::history::Routing;
use crate::workload::job::Work;
use crate::workload::{
    Bounds, Evaluation, LaneLoad, Network, RankTime, Settings, SimulationError, Spreading, evaluate,
};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobCompared {
    pub as_it_was: JobOutcome,
    pub variant: JobOutcome,
    pub events: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobOutcome {
    pub iteration_ms: f64,
    /// Lower bounds of the iteration time.
    pub bounds: Bounds,
    /// The mean over all ranks.
    pub mean: RankTime,
    /// The links that carried most of what they could in an iteration, one direction each.
    pub fullest: Vec<Fullest>,
}

impl JobCompared {
    /// Returns the increase of the iteration time in percent; negative if the variant is faster.
    pub fn slower_percent(&self) -> f64 {
        slower_percent([&self.as_it_was, &self.variant].map(|it| it.iteration_ms))
    }
}

/// Simulates an iteration of a job on the hosts of the recorded fabric, and with the variant: its changes of the job,
/// on the hosts that replace these.
pub fn compare_jobs(
    [job, changed]: [&Work; 2],
    variant: &Variant,
    effort: &mut Effort<'_>,
) -> Result<JobCompared, SandboxError> {
    let carriage = ExplicitPaths::default();
    let recorded = &variant.recorded;
    let network = Network::new(recorded, &job.placement, &carriage, job.settings.clone());
    let as_it_was = effort.evaluate(job, &network);
    let as_it_was = as_it_was.map_err(SandboxError::JobAsItWas)?;
    let placement = variant.placement(&changed.placement)?;
    let (fabric, carriage) = (&variant.fabric, variant.carriage());
    let settings = variant.settings(&changed.settings);
    let network = Network::new(fabric, &placement, &carriage, settings);
    let otherwise = effort.evaluate(changed, &network);
    let otherwise = otherwise.map_err(SandboxError::JobOtherwise)?;
    Ok(JobCompared {
        events: as_it_was.events + otherwise.events,
        as_it_was: JobOutcome::new(&as_it_was, recorded),
        variant: JobOutcome::new(&otherwise, fabric),
    })
}

impl Effort<'_> {
    fn evaluate(
        &mut self,
        job: &Work,
        network: &Network<'_>,
    ) -> Result<Evaluation, SimulationError> {
        evaluate(&job.iteration, network, self.limit, self.watch)
    }
}

impl Variant {
    /// Returns the host of each rank, after replacements.
    fn placement(&self, recorded: &[NodeId]) -> Result<Vec<NodeId>, SandboxError> {
        let hosts = recorded.iter().map(|&host| self.recorded.name(host));
        self.parts_all(&hosts.clone().collect())?;
        hosts.map(|name| self.host(name)).collect()
    }

    fn carriage(&self) -> ExplicitPaths {
        let way = |(&pair, nodes): (&(NodeId, NodeId), &Vec<NodeId>)| {
            let nodes = nodes.clone();
            (pair, vec![NodePath { nodes, weight: 1.0 }])
        };
        let ways: BTreeMap<_, _> = self.ways.iter().map(way).collect();
        ExplicitPaths {
            ways,
            ..ExplicitPaths::default()
        }
    }

    /// Returns the settings of the job, unless the variant sets its routing.
    fn settings(&self, of_job: &Settings) -> Settings {
        let spreading = match self.routes {
            Routes::Recorded | Routes::Rehashed => of_job.spreading,
            Routes::Chosen(Routing::Even) => Spreading::Even,
            Routes::Chosen(Routing::Hashed(ecmp)) => Spreading::Hashed(ecmp),
        };
        Settings {
            spreading,
            ..of_job.clone()
        }
    }
}

impl JobOutcome {
    fn new(evaluation: &Evaluation, fabric: &Fabric) -> Self {
        let cables = 2 * fabric.links().len();
        let lanes = evaluation.lanes.iter().filter(|it| it.index < cables);
        let full = |it: &LaneLoad| {
            let link = LinkId::from_index(it.index / 2);
            Fullest::new(fabric, link, it.index % 2 == 1, it.utilization)
        };
        Self {
            iteration_ms: evaluation.iteration_ms,
            bounds: evaluation.bounds,
            mean: evaluation.mean,
            fullest: lanes.take(MAX_FULLEST_LINKS).map(full).collect(),
        }
    }
}
