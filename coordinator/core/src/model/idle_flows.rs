//! Expected traffic: idle flows, since an open session will send as much again, and announced phases of jobs.

mod ring_load;

use std::collections::BTreeMap;
use std::mem;
use std::time::Duration;

use reweave_common::fabric::Fabric;
use reweave_common::flow::FlowKey;
use reweave_common::ids::NodeId;
use reweave_common::moment::Moment;
use reweave_common::snapshot::{FlowState, Hop};
use reweave_common::units::Rate;
use reweave_repair::causes::{Demand, JobFacts};

use crate::estimate::interval_timer::IntervalTimer;
use crate::ingest::telemetry::Ingest;
use crate::log::registered::Registered;
use crate::model::evidence::name;
use crate::model::jobs::{Job, job_of, together};
use crate::model::world::{Measurements, World};

const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// Large flows with their last rates.
#[derive(Debug, Clone, Default)]
pub(crate) struct IdleFlows {
    looks: IntervalTimer,
    last: BTreeMap<FlowKey, FlowState>,
    /// When each was first seen to be large.
    since: BTreeMap<FlowKey, Moment>,
    announced: BTreeMap<String, AnnouncedLoad>,
}

/// The announced load of a job on each hop between switches.
#[derive(Debug, Clone)]
struct AnnouncedLoad {
    ranks: Vec<NodeId>,
    ring: Rate,
    loads: BTreeMap<Hop, f64>,
}

/// Flows that send much now.
pub(crate) struct LargeFlows {
    all: Vec<FlowKey>,
    /// Flows whose path and rate are known well enough for a later prediction.
    measured: Vec<FlowState>,
}

impl LargeFlows {
    pub(crate) fn seen(world: &World<'_>) -> Self {
        let known = world.known;
        let mut flows = world.flows();
        flows.retain(|state| known.is_elephant(state.rate));
        let all = flows.iter().map(|state| state.flow).collect();
        flows.retain(|state| is_measured(known, state) && state.path.is_some());
        Self {
            all,
            measured: flows,
        }
    }
}

impl IdleFlows {
    /// Whether the search for large flows is due, at most once per [`SAMPLE_INTERVAL`].
    pub(crate) fn is_due(&mut self, now: Moment) -> bool {
        self.looks.is_due(now, SAMPLE_INTERVAL)
    }

    /// Takes the flows that are large now. Of the earlier ones, those that still exist are kept.
    pub(crate) fn handle_flows(&mut self, now: Moment, ingest: &Ingest, large: LargeFlows) {
        self.last.retain(|flow, _| ingest.flow(flow).is_some());
        let last = &self.last;
        let is_here = |flow: &FlowKey| last.contains_key(flow) || ingest.flow(flow).is_some();
        self.since.retain(|flow, _| is_here(flow));
        for flow in large.all {
            self.since.entry(flow).or_insert(now);
        }
        let measured = large.measured.into_iter();
        self.last.extend(measured.map(|state| (state.flow, state)));
    }

    /// Updates the announced traffic of registered jobs, over the shortest paths.
    pub(crate) fn handle_jobs(&mut self, fabric: &Fabric, jobs: &BTreeMap<String, Registered>) {
        let mut before = mem::take(&mut self.announced);
        for (job, it) in jobs {
            let Some(ring) = it.phase.as_ref().and_then(|phase| phase.ring) else {
                continue;
            };
            let same = before.remove(job);
            let same =
                same.filter(|announced| announced.ring == ring && announced.ranks == it.hosts);
            let announced = same.unwrap_or_else(|| AnnouncedLoad {
                ranks: it.hosts.clone(),
                ring,
                loads: ring_load::loads(fabric, &it.hosts, ring),
            });
            self.announced.insert(job.clone(), announced);
        }
    }

    /// Announced jobs without measured traffic; measured traffic is counted as it is.
    pub(crate) fn announced_jobs(&self, world: &World<'_>) -> Vec<JobFacts> {
        let known = world.known;
        let flows = world.flows();
        let is_to_come = |(_, announced): &(&String, &AnnouncedLoad)| {
            let hosts = announced.ranks.iter().copied().collect();
            let is_silent = |host: &NodeId| !sends_past_the_kernel(world, &flows, *host);
            job_of(world, hosts).flows.is_empty() && announced.ranks.iter().all(is_silent)
        };
        self.announced
            .iter()
            .filter(is_to_come)
            .map(|(job, announced)| JobFacts {
                job: job.clone(),
                will_send: announced
                    .loads
                    .iter()
                    .filter_map(|(hop, gbps)| demand(known, *hop, *gbps))
                    .collect(),
                ..JobFacts::default()
            })
            .collect()
    }

    /// All jobs whose flows send now, or have sent and are idle, in the order of their first hosts.
    pub(crate) fn all_jobs(&self, world: &World<'_>) -> Vec<Job> {
        let mut flows = self.last.clone();
        let now = world.flows().into_iter();
        let large = now.filter(|state| world.known.is_elephant(state.rate));
        flows.extend(large.map(|state| (state.flow, state)));
        together(world, flows.into_values().collect())
    }

    /// When the first of these flows was seen to be large.
    pub(crate) fn first(&self, job: &Job) -> Option<Moment> {
        let since = job.flows.iter().filter_map(|it| self.since.get(&it.flow));
        since.min().copied()
    }

    /// Returns the expected traffic of idle jobs over links between switches that other flows use now. Other links are
    /// left out.
    pub(crate) fn jobs(&self, world: &World<'_>) -> Vec<JobFacts> {
        let now = world.flows();
        let sends = |flow: &FlowKey| now.binary_search_by_key(flow, |state| state.flow).is_ok();
        let resting = self.last.iter().filter(|(flow, _)| !sends(flow));
        let jobs = together(world, resting.map(|(_, state)| state.clone()).collect());
        let large = now
            .iter()
            .filter(|state| world.known.is_elephant(state.rate));
        let taken: Vec<Hop> = large
            .flat_map(|state| state.path.iter().flatten().copied())
            .collect();
        let jobs = jobs.iter().map(|job| facts(world.known, job, &taken));
        jobs.filter(|job| !job.will_send.is_empty()).collect()
    }
}

/// Whether the host's ports send much more than its known flows: that may be the announced traffic, which link
/// counters already include.
fn sends_past_the_kernel(world: &World<'_>, flows: &[FlowState], host: NodeId) -> bool {
    let own = flows.iter().filter(|state| state.from == host);
    let seen: Rate = own.map(|state| state.rate_range[1]).sum();
    let links = world.fabric().training_links(host);
    let loads = links.filter_map(|link| world.load(Hop { from: host, link }));
    let sent: Rate = loads.sum();
    let unseen = Rate::from_bits_per_s(sent.bits_per_s().saturating_sub(seen.bits_per_s()));
    world.known.is_elephant(unseen)
}

/// Whether there are as many readings as a verdict needs: the last reading before a pause includes idle time, and is
/// not enough.
fn is_measured(known: Measurements<'_>, state: &FlowState) -> bool {
    known.is_elephant(state.rate) && known.is_well_measured_lately(&state.flow)
}

fn facts(known: Measurements<'_>, job: &Job, taken: &[Hop]) -> JobFacts {
    let demands = job.flows.iter().flat_map(|flow| {
        let hops = flow.path.iter().flatten();
        let met = hops.filter(|hop| taken.contains(hop));
        met.filter_map(|hop| demand(known, *hop, flow.rate_range[1].gbps()))
    });
    JobFacts {
        job: job.name(known),
        will_send: demands.collect(),
        ..JobFacts::default()
    }
}

fn demand(known: Measurements<'_>, hop: Hop, gbps: f64) -> Option<Demand> {
    let ends = [hop.from, known.fabric.link(hop.link).far(hop.from).node];
    known.fabric.is_between_switches(hop.link).then(|| Demand {
        path: ends.map(|end| name(known, end)).to_vec(),
        gbps,
    })
}
