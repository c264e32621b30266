//! Explains why a job is slow, and compares the bandwidth between pairs of hosts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use reweave_common::fabric::{Fabric, Role};
use reweave_common::flow::FlowKey;
use reweave_common::ids::NodeId;
use reweave_common::moment::Moment;
use reweave_common::operator::{
    Explanation, JobStatus, MeasuredPair, MeasuredPairs, Promise, Refused,
};
use reweave_common::units::Rate;
use reweave_repair::causes::{BesidePeers, PairFacts, beside_peers};

use super::LeaderView;
use crate::log::millis::millis;
use crate::log::state::{Outcome, State};
use crate::model::evidence::measured;
use crate::model::exchange::exchange;
use crate::model::jobs::{Job, job_of, jobs};
use crate::model::world::World;
use crate::plan::proposals;

/// An answer has to fit into one message, however large the cluster is.
const MAX_JOBS: usize = 1000;

/// None when the hosts exchange no large flows now.
pub(super) fn explain(
    world: &World<'_>,
    state: &State,
    seen: LeaderView<'_>,
    job: String,
    hosts: &[String],
) -> Result<Option<Box<Explanation>>, Refused> {
    let (found, name) = asked_for(world, state, job, hosts)?;
    let exchange = exchange(world, &found, name);
    let explained = proposals::explain(world, state, seen.arrivals, &exchange);
    let explained = explained.map_err(|unfit| Refused::Contradicted {
        why: unfit.to_string(),
    })?;
    Ok(explained.map(Box::new))
}

/// The exchange of these hosts, of the job with this registered name, or of the job of the host with this name.
fn asked_for(
    world: &World<'_>,
    state: &State,
    job: String,
    hosts: &[String],
) -> Result<(Job, String), Refused> {
    let fabric = world.fabric();
    if !hosts.is_empty() {
        let hosts = hosts.iter().map(|name| host(fabric, name));
        let hosts = hosts.collect::<Result<BTreeSet<_>, _>>()?;
        return Ok((job_of(world, hosts), job));
    }
    match state.registered().get(&job) {
        Some(registered) => {
            let hosts = registered.hosts.iter().copied().collect();
            Ok((job_of(world, hosts), job))
        }
        None => {
            let found = job_on(world, host(fabric, &job)?);
            let name = found.name(world.known);
            Ok((found, name))
        }
    }
}

/// All jobs, the busiest first. An idle job is listed as long as its sessions are open.
pub(super) fn statuses(world: &World<'_>, state: &State) -> Vec<JobStatus> {
    let now: BTreeMap<_, _> = world
        .flows()
        .into_iter()
        .map(|flow| (flow.flow, flow.rate))
        .collect();
    let jobs = world.known.resting.all_jobs(world).into_iter();
    let mut reports: Vec<_> = jobs
        .map(|job| job_status(world, state, &job, &now))
        .collect();
    reports.sort_by_key(|job| Reverse(job.rate_bits_per_s));
    reports.truncate(MAX_JOBS);
    reports
}

type Rates = BTreeMap<FlowKey, Rate>;

fn job_status(world: &World<'_>, state: &State, job: &Job, now: &Rates) -> JobStatus {
    let (known, fabric) = (world.known, world.fabric());
    let sending: Rates = job
        .flows
        .iter()
        .filter_map(|it| Some((it.flow, *now.get(&it.flow)?)))
        .collect();
    let rates = || {
        let reports = job.reported_pairs.iter().map(|pair| pair.rate);
        sending.values().copied().chain(reports)
    };
    let first = known.resting.first(job).unwrap_or(known.now);
    JobStatus {
        job: job.name(known),
        hosts: job
            .hosts
            .iter()
            .map(|&it| fabric.name(it).to_owned())
            .collect(),
        flows: job.flows.len() + job.reported_pairs.len(),
        sending: rates().count(),
        rate_bits_per_s: rates().sum(),
        slowest_bits_per_s: rates().min(),
        iteration_ms: job.beat(known).map(|beat| beat.period.as_secs_f64() * 1e3),
        rest_share: job.rest_share(known),
        seen_for_ms: millis(known.now.since(first)),
        promise: promise(state, &sending),
    }
}

/// The prediction of the last kept plan that concerns any of these flows.
fn promise(state: &State, sending: &Rates) -> Option<Promise> {
    let kept = state.history().rev();
    let kept = kept.filter(|ended| ended.outcome == Outcome::Committed);
    kept.map(|ended| &ended.plan).find_map(|plan| {
        let all = plan.predictions.iter();
        let predicted: Vec<_> = all.filter(|it| sending.contains_key(&it.flow)).collect();
        let slowest = predicted.iter().min_by_key(|it| it.after)?;
        let achieved = predicted.iter().map(|it| sending[&it.flow]).min()?;
        Some(Promise {
            generation: plan.generation,
            flows: predicted.len(),
            predicted_bits_per_s: [slowest.low, slowest.high],
            achieved_bits_per_s: achieved,
        })
    })
}

pub(super) fn job_on(world: &World<'_>, host: NodeId) -> Job {
    let mut jobs = jobs(world).into_iter();
    jobs.find(|job| job.hosts.contains(&host))
        .unwrap_or_default()
}

pub(super) fn host(fabric: &Fabric, name: &str) -> Result<NodeId, Refused> {
    let found = fabric.find(name);
    let found = found.filter(|&node| fabric.node(node).role != Role::Switch);
    found.ok_or_else(|| Refused::NoSuchHost {
        name: name.to_owned(),
    })
}

/// Pairs of hosts, those first that are furthest below their peers.
pub(super) fn pairs(world: &World<'_>, most: u32) -> MeasuredPairs {
    let (facts, times): (Vec<_>, Vec<_>) = measured(world).into_iter().unzip();
    // All names come from the fabric.
    let beside = beside_peers(&facts, world.fabric()).unwrap_or_default();
    let mut reports: Vec<_> = facts.into_iter().zip(beside).zip(times).collect();
    let share =
        |((facts, beside), _): &((PairFacts, BesidePeers), Moment)| facts.gbps / beside.usual_gbps;
    reports.sort_by(|one, other| share(one).total_cmp(&share(other)));
    reports.truncate(most as usize);
    let pairs = reports
        .into_iter()
        .map(|((facts, beside), at)| MeasuredPair {
            rail: facts.rail,
            in_rack: beside.in_rack,
            rate_bits_per_s: rate(facts.gbps),
            usual_bits_per_s: rate(beside.usual_gbps),
            peers: beside.peers,
            is_slow: beside.is_slow,
            age_ms: millis(world.known.now.since(at)),
            from: facts.from,
            to: facts.to,
        });
    MeasuredPairs {
        pairs: pairs.collect(),
    }
}

fn rate(gbps: f64) -> Rate {
    Rate::from_bits_per_s((gbps * 1e9).round() as u64)
}
