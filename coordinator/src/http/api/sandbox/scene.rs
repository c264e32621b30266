//! The decoded traffic of a simulation, and its result for each variant.

use std::sync::Arc;

use reweave_common::error::error_chain as whole;
use reweave_common::fabric::{Fabric, MaxSize};
use reweave_common::ids::NodeId;
use reweave_common::moment::Moment;
use reweave_common::traffic::Burst;
use reweave_formats::topoopt;
use reweave_repair::paths::ecmp::Ecmp;
use reweave_sim::engine::network::Costs;
use reweave_sim::sandbox::{
    Compared, Effort, Traffic, Variant, VariantFile, as_seen, compare, compare_jobs,
};
use reweave_sim::workload::job::{JobFile, Work};
use serde_json::Value;

use super::super::problem::Problem;
use super::recorded::Trace;
use super::{MAX_BURSTS, Otherwise, refused, too_much};

/// Limits of a fabric in a request: it takes some 100 MB then, and there are at most five.
const MAX_FABRIC_SIZE: MaxSize = MaxSize {
    nodes: 1 << 16,
    links: 1 << 18,
};
/// Maximum number of bursts in a result, largest first.
const MAX_REPORTED_BURSTS: usize = 50;
/// Name by which variants refer to the original fabric.
const OWN_FABRIC: &str = "fabric.toml";
const FLOWS_NAME: &str = "flows";
const JOB_NAME: &str = "job";
/// Maximum number of ranks that all exchange data with each other.
pub(super) const MAX_RANKS: usize = 256;
/// Maximum number of micro-batches: each of each rank passes every layer.
const MAX_MICROBATCHES: usize = 2048;
const NO_TIMINGS_ERROR: &str = "operators need a profile: send its text as `profile`, or name a \
                          preset";

pub(super) enum Source {
    Past { bursts: Vec<Burst>, from: Moment },
    Sent(Sent),
}

pub(super) enum Sent {
    Flows(String),
    Job(Named),
    Trace(Trace),
}

/// A job file with its timings.
pub(super) struct Named {
    pub(super) text: String,
    pub(super) profile: Option<String>,
}

pub(super) struct Scene {
    /// The fabric with all fibres.
    whole: Arc<Fabric>,
    /// The fabric without fibres that no circuit joins.
    fabric: Fabric,
    /// Commands that moved circuits of the cluster.
    moved: Vec<String>,
    what: What,
}

enum What {
    Past { bursts: Vec<Burst>, from: Moment },
    Flows(Traffic),
    Job { named: Named, job: Box<Work> },
    Trace(Box<Work>),
}

impl Scene {
    /// Decodes the traffic on the fabric of the request, else on that of the cluster.
    pub(super) fn set(
        source: Source,
        fabric: Option<&str>,
        own: Arc<Fabric>,
        moved: Vec<String>,
    ) -> Result<Self, Problem> {
        let (whole, moved) = match fabric {
            Some(text) => {
                let read = Fabric::parse_within(OWN_FABRIC, text, MAX_FABRIC_SIZE);
                (
                    Arc::new(read.map_err(|it| bad(it.to_string()))?),
                    Vec::new(),
                )
            }
            None => (own, moved),
        };
        let [_, fabric] = as_seen(&whole, &moved, &[]);
        let what = match source {
            Source::Past { bursts, from } => What::Past { bursts, from },
            Source::Sent(Sent::Flows(text)) => What::Flows(listed(&text, &fabric)?),
            Source::Sent(Sent::Job(named)) => {
                let job = JobFile::parse(JOB_NAME, &named.text).map_err(|it| it.to_string());
                let job = job.and_then(|it| named.work(it, &fabric)).map_err(bad)?;
                let job = Box::new(job);
                What::Job { named, job }
            }
            Source::Sent(Sent::Trace(trace)) => {
                What::Trace(Box::new(trace.work(&fabric).map_err(bad)?))
            }
        };
        Ok(Self {
            whole,
            fabric,
            moved,
            what,
        })
    }
}

fn bad(detail: String) -> Problem {
    refused("urn:reweave:not-to-be-played", detail)
}

fn listed(text: &str, fabric: &Fabric) -> Result<Traffic, Problem> {
    // The first line holds the column names.
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let rows = lines.skip(1).count();
    if rows > MAX_BURSTS {
        let detail = format!("flows: {rows} are more than {MAX_BURSTS}");
        return Err(too_much(detail));
    }
    let traffic = Traffic::listed(FLOWS_NAME, text, fabric, &Costs::default(), Ecmp::default());
    traffic.map_err(|error| bad(error.to_string()))
}

impl Named {
    fn work(&self, job: JobFile, fabric: &Fabric) -> Result<Work, String> {
        let hosts: Vec<NodeId> = fabric.endpoints().collect();
        match job {
            JobFile::Preset(job) => {
                let ranks = hosts.len() * job.preset.gpus_per_host;
                let micro = ranks.saturating_mul(job.preset.parallelism.microbatches);
                is_small(ranks, MAX_RANKS, "ranks")?;
                is_small(micro, MAX_MICROBATCHES, "micro-batches of all ranks")?;
                job.work(&hosts).map_err(|error| error.to_string())
            }
            JobFile::Operators { model, choices, .. } => {
                is_small(hosts.len(), MAX_RANKS, "ranks")?;
                let profile = self.profile.as_deref().ok_or(NO_TIMINGS_ERROR)?;
                let timings = topoopt::read_profile(profile, model.batch);
                let timings = timings.map_err(|it| format!("profile: {}", whole(&it)))?;
                let work = model.work(&timings, hosts, choices);
                work.map_err(|error| error.to_string())
            }
        }
    }
}

fn is_small(count: usize, most: usize, what: &str) -> Result<(), String> {
    let instead = "use `reweave sim job` for larger ones";
    if count > most {
        Err(format!("{count} {what} are more than {most}: {instead}"))
    } else {
        Ok(())
    }
}

impl Otherwise {
    pub(super) fn compared(&self, scene: &Scene, effort: &mut Effort<'_>) -> Result<Value, String> {
        let file = VariantFile::parse(&self.name, &self.variant);
        let mut file = file.map_err(|it| it.to_string())?;
        let fabric = &scene.fabric;
        let alike = || [fabric.clone(), fabric.clone()];
        match &scene.what {
            What::Past { bursts, from } => {
                let recorded = file.recorded().map_err(|it| it.to_string())?;
                let recorded = self.whole(recorded, &scene.whole)?;
                let recorded = as_seen(&recorded, &scene.moved, bursts);
                let variant = self.variant(file, recorded, fabric)?;
                let traffic = Traffic::seen(bursts, *from, &variant.recorded);
                compared(&traffic, &variant, effort)
            }
            What::Flows(traffic) => {
                let variant = self.variant(file, alike(), fabric)?;
                compared(traffic, &variant, effort)
            }
            What::Job { named, job } => {
                let changed = file
                    .job(JOB_NAME, &named.text)
                    .map_err(|it| it.to_string())?;
                let changed = changed.map(|it| named.work(it, fabric)).transpose()?;
                let variant = self.variant(file, alike(), fabric)?;
                jobs_compared([job, changed.as_ref().unwrap_or(job)], &variant, effort)
            }
            What::Trace(job) => {
                let variant = self.variant(file, alike(), fabric)?;
                jobs_compared([job, job], &variant, effort)
            }
        }
    }

    fn variant(
        &self,
        file: VariantFile<'_>,
        [recorded, at_last]: [Fabric; 2],
        own: &Fabric,
    ) -> Result<Variant, String> {
        let other = match file.fabric() {
            Some(name) => self.whole(name, own)?.lit_alone(),
            None => at_last,
        };
        file.on([recorded, other]).map_err(|it| it.to_string())
    }

    fn whole(&self, name: &str, own: &Fabric) -> Result<Fabric, String> {
        match self.files.get(name) {
            Some(text) => {
                Fabric::parse_within(name, text, MAX_FABRIC_SIZE).map_err(|error| error.to_string())
            }
            None if name == OWN_FABRIC => Ok(own.clone()),
            None => Err(format!(
                "{name:?} is not among the files sent; the cluster's own fabric is {OWN_FABRIC:?}"
            )),
        }
    }
}

fn jobs_compared(
    works: [&Work; 2],
    variant: &Variant,
    effort: &mut Effort<'_>,
) -> Result<Value, String> {
    let compared = compare_jobs(works, variant, effort).map_err(|it| it.to_string())?;
    serde_json::to_value(compared).map_err(|it| it.to_string())
}

fn compared(
    traffic: &Traffic,
    variant: &Variant,
    effort: &mut Effort<'_>,
) -> Result<Value, String> {
    let compared = compare(traffic, variant, effort).map_err(|it| it.to_string());
    compared_json(compared?)
}

fn compared_json(mut compared: Compared) -> Result<Value, String> {
    compared
        .bursts
        .sort_by_key(|it| std::cmp::Reverse(it.bytes));
    compared.bursts.truncate(MAX_REPORTED_BURSTS);
    serde_json::to_value(&compared).map_err(|error| error.to_string())
}
