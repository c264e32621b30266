//! What is played, read and ready, and how each variant fares with it.

use std::sync::Arc;

use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;
use reweave_common::moment::Moment;
use reweave_common::traffic::Burst;
use reweave_planner::sandbox::{
    Compared, Effort, Traffic, Variant, VariantFile, compare, compare_jobs,
};
use reweave_planner::sim::ecmp::Ecmp;
use reweave_planner::sim::network::Costs;
use reweave_planner::workload::job::{JobFile, Work};
use serde_json::Value;

use super::super::problem::Problem;
use super::{MOST_BURSTS, Otherwise, refused, too_much};

/// As many as people look at, the largest first.
const TOLD_BURSTS: usize = 50;
/// What variants call the fabric of this cluster, or that which somebody plays on.
const OWN_FABRIC: &str = "fabric.toml";
const FLOWS: &str = "flows";
const JOB: &str = "job";
/// Where each exchanges something with each other.
const MOST_RANKS: usize = 256;
/// Each micro-batch of each rank meets every layer.
const MOST_MICROBATCHES: usize = 2048;
const OPERATORS: &str = "the timings of operators are in a file of their own, which is not sent: name a preset, or \
                         use `reweave sim job`";

pub(super) enum Source {
    Past { bursts: Vec<Burst>, from: Moment },
    Text(Text),
}

pub(super) enum Text {
    Flows(String),
    Job(String),
}

pub(super) struct Scene {
    fabric: Arc<Fabric>,
    what: What,
}

enum What {
    Past { bursts: Vec<Burst>, from: Moment },
    Flows(Traffic),
    Job { text: String, job: Box<Work> },
}

impl Scene {
    /// On the fabric whose text this is, or else on the cluster's own.
    pub(super) fn set(
        source: Source,
        fabric: Option<&str>,
        own: Arc<Fabric>,
    ) -> Result<Self, Problem> {
        let fabric = match fabric {
            Some(text) => {
                Arc::new(Fabric::parse(OWN_FABRIC, text).map_err(|it| bad(it.to_string()))?)
            }
            None => own,
        };
        let what = match source {
            Source::Past { bursts, from } => What::Past { bursts, from },
            Source::Text(Text::Flows(text)) => What::Flows(listed(&text, &fabric)?),
            Source::Text(Text::Job(text)) => {
                let job = JobFile::parse(JOB, &text).map_err(|it| it.to_string());
                let job = job.and_then(|it| work(&it, &fabric)).map_err(bad)?;
                let job = Box::new(job);
                What::Job { text, job }
            }
        };
        Ok(Self { fabric, what })
    }
}

fn bad(detail: String) -> Problem {
    refused("urn:reweave:not-to-be-played", detail)
}

fn listed(text: &str, fabric: &Fabric) -> Result<Traffic, Problem> {
    let rows = text.lines().count();
    if rows > MOST_BURSTS {
        let detail = format!("flows: {rows} lines are more than {MOST_BURSTS}");
        return Err(too_much(detail));
    }
    let traffic = Traffic::listed(FLOWS, text, fabric, &Costs::default(), Ecmp::default());
    traffic.map_err(|error| bad(error.to_string()))
}

fn work(job: &JobFile, fabric: &Fabric) -> Result<Work, String> {
    let JobFile::Preset(job) = job else {
        return Err(OPERATORS.to_owned());
    };
    let hosts: Vec<NodeId> = fabric.endpoints().collect();
    let ranks = hosts.len() * job.preset.gpus_per_host;
    let micro = ranks.saturating_mul(job.preset.parallelism.microbatches);
    for (count, most, what) in [
        (ranks, MOST_RANKS, "ranks"),
        (micro, MOST_MICROBATCHES, "micro-batches of all ranks"),
    ] {
        if count > most {
            let instead = "use `reweave sim job` for larger ones";
            return Err(format!("{count} {what} are more than {most}: {instead}"));
        }
    }
    job.work(&hosts).map_err(|error| error.to_string())
}

impl Otherwise {
    pub(super) fn compared(&self, scene: &Scene, effort: &mut Effort<'_>) -> Result<Value, String> {
        let file = VariantFile::parse(&self.name, &self.variant);
        let mut file = file.map_err(|it| it.to_string())?;
        let fabric: &Fabric = &scene.fabric;
        match &scene.what {
            What::Past { bursts, from } => {
                let recorded = file.recorded().map_err(|it| it.to_string())?;
                let recorded = self.fabric(recorded, fabric)?;
                let variant = self.variant(file, recorded, fabric)?;
                let traffic = Traffic::seen(bursts, *from, &variant.recorded);
                compared(&traffic, &variant, effort)
            }
            What::Flows(traffic) => {
                let variant = self.variant(file, fabric.clone(), fabric)?;
                compared(traffic, &variant, effort)
            }
            What::Job { text, job } => {
                let changed = file.job(JOB, text).map_err(|it| it.to_string())?;
                let changed = changed.map(|it| work(&it, fabric)).transpose()?;
                let variant = self.variant(file, fabric.clone(), fabric)?;
                let works = [job, changed.as_ref().unwrap_or(job)];
                let compared = compare_jobs(works, &variant, effort);
                let compared = compared.map_err(|it| it.to_string())?;
                serde_json::to_value(compared).map_err(|it| it.to_string())
            }
        }
    }

    fn variant(
        &self,
        file: VariantFile<'_>,
        recorded: Fabric,
        own: &Fabric,
    ) -> Result<Variant, String> {
        let other = match file.fabric() {
            Some(name) => self.fabric(name, own)?,
            None => recorded.clone(),
        };
        file.on([recorded, other]).map_err(|it| it.to_string())
    }

    fn fabric(&self, name: &str, own: &Fabric) -> Result<Fabric, String> {
        match self.files.get(name) {
            Some(text) => Fabric::parse(name, text).map_err(|error| error.to_string()),
            None if name == OWN_FABRIC => Ok(own.clone()),
            None => Err(format!(
                "{name:?} is none of the files sent, and the cluster's own fabric is {OWN_FABRIC:?}"
            )),
        }
    }
}

fn compared(
    traffic: &Traffic,
    variant: &Variant,
    effort: &mut Effort<'_>,
) -> Result<Value, String> {
    let compared = compare(traffic, variant, effort).map_err(|it| it.to_string());
    told(compared?)
}

fn told(mut compared: Compared) -> Result<Value, String> {
    compared
        .bursts
        .sort_by_key(|it| std::cmp::Reverse(it.bytes));
    compared.bursts.truncate(TOLD_BURSTS);
    serde_json::to_value(&compared).map_err(|error| error.to_string())
}
