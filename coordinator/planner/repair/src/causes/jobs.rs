//! Problems within jobs: ranks, groups and stages that do not fit racks, and the parts of an iteration.

use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;

use super::error::EvidenceError;
use super::evidence::{Evidence, JobFacts, node};
use super::{Cause, Class, Subject};
use crate::paths::Atlas;

/// Ratio of rack crossings to the necessary ones at which a new order is recommended.
const MAX_CROSSING_RATIO: f64 = 1.5;
/// Least coefficient of determination (R²) of a straight line through all-reduce times. It must also exceed that of a logarithm.
const MIN_LINEAR_FIT: f64 = 0.98;
/// A rank that is first this often is no accident.
const MIN_FIRST_SHARE: f64 = 0.9;
/// Minimum number of collectives for a statement about the first rank.
const MIN_COLLECTIVES: u64 = 10;
/// Below this share of communication time, the network does not slow a job.
const MIN_COMMUNICATION_SHARE: f64 = 0.1;
/// A rank that computes longer than the median by this factor delays the others.
const MIN_COMPUTE_RATIO: f64 = 1.3;
/// Maximum ratio of a late rank's time in collectives to the least of the other ranks.
const MAX_WAITING_RATIO: f64 = 0.6;
/// Minimum number of ranks that wait for a late one.
const MIN_WAITING_RANKS: usize = 2;
/// Least share of an iteration that the others wait for a late rank.
const MIN_WAIT_SHARE: f64 = 0.1;
/// A host whose processors have nothing left to give.
const MIN_BUSY_SHARE: f64 = 0.95;
/// Maximum ratio of the median host's load to that of the busiest one. Above it, no host is an outlier.
const MAX_BUSY_RATIO: f64 = 0.7;

pub(super) fn findings(evidence: &Evidence, fabric: &Fabric) -> Result<Vec<Cause>, EvidenceError> {
    let mut findings = Vec::new();
    for job in &evidence.jobs {
        let racks = racks(job, fabric)?;
        let all = [
            tensor(job),
            pipeline(job, &racks),
            order(job, &racks),
            linear(job),
            first(job, fabric)?,
            host_bound(job)
                .or_else(|| late(job))
                .or_else(|| busy_host(job, evidence)),
        ];
        findings.extend(all.into_iter().flatten());
    }
    Ok(findings)
}

/// Returns the switch of each rank's host.
fn racks(job: &JobFacts, fabric: &Fabric) -> Result<Vec<NodeId>, EvidenceError> {
    let atlas = Atlas::new(fabric);
    let rack = |host: &String| Ok(atlas.door(node(fabric, host)?));
    job.ranks.iter().map(rack).collect()
}

fn tensor(job: &JobFacts) -> Option<Cause> {
    let host = |&rank: &usize| &job.ranks[rank];
    let spread = |group: &&Vec<usize>| group.iter().map(host).any(|it| *it != job.ranks[group[0]]);
    let across = job.tensor_groups.iter().filter(spread).count();
    let said = format!(
        "{across} of {} tensor groups span hosts",
        job.tensor_groups.len()
    );
    (across > 0).then(|| Class::TensorAcrossHosts.cause(job.subject(), 0.95, said))
}

/// Stages that follow each other in other racks, more often than the racks make it needed.
fn pipeline(job: &JobFacts, racks: &[NodeId]) -> Option<Cause> {
    let pipelines = pipelines(job, racks);
    let steps = pipelines.iter().flat_map(|racks| racks.windows(2));
    let crossings = steps.filter(|pair| pair[0] != pair[1]).count();
    let needed = pipelines
        .iter()
        .map(|racks| distinct(racks).saturating_sub(1));
    let needed: usize = needed.sum();
    let said = format!("stages cross racks {crossings} times, {needed} would do");
    (crossings > needed).then(|| Class::PipelineAcrossSpine.cause(job.subject(), 0.85, said))
}

/// Returns the racks of each pipeline's stages, for pipelines with one rank per stage.
fn pipelines(job: &JobFacts, racks: &[NodeId]) -> Vec<Vec<NodeId>> {
    let stages = job.pipeline_stages.iter().filter(|it| !it.is_empty());
    let pipelines = stages.clone().map(Vec::len).min().unwrap_or(0);
    let along = |nth: usize| stages.clone().map(|stage| racks[stage[nth]]).collect();
    (0..pipelines).map(along).collect()
}

fn order(job: &JobFacts, racks: &[NodeId]) -> Option<Cause> {
    let of_ring: Vec<_> = job.ring.iter().map(|&rank| racks[rank]).collect();
    let next = of_ring.iter().cycle().skip(1);
    let crossings = of_ring
        .iter()
        .zip(next)
        .filter(|(here, next)| here != next)
        .count();
    let needed = match distinct(&of_ring) {
        0 | 1 => 0,
        racks => racks,
    };
    let said = format!("the ring crosses racks {crossings} times, {needed} would do");
    let bad = crossings as f64 > MAX_CROSSING_RATIO * needed as f64;
    bad.then(|| Class::RankOrder.cause(job.subject(), 0.9, said))
}

fn distinct(racks: &[NodeId]) -> usize {
    let mut racks = racks.to_vec();
    racks.sort_unstable();
    racks.dedup();
    racks.len()
}

/// A straight line through the times, rising at least half as fast as the world grows.
fn linear(job: &JobFacts) -> Option<Cause> {
    let points = &job.allreduce_ms;
    if points.len() < 3 {
        return None;
    }
    let (slope, offset, explained) = line(points);
    let least = points.iter().map(|it| it.0).fold(f64::INFINITY, f64::min);
    let rises = slope > 0.0 && slope * least > offset.abs() * 0.5;
    let logarithms: Vec<_> = points.iter().map(|&(x, y)| (libm::log(x), y)).collect();
    let straight = explained > MIN_LINEAR_FIT && explained > line(&logarithms).2;
    let percent = 100.0 * explained;
    let said = format!("{slope:.3} ms for each further rank; a linear fit explains {percent:.1} %");
    (rises && straight).then(|| Class::AllreduceLinear.cause(job.subject(), 0.85, said))
}

/// Returns slope, offset and coefficient of determination (R²) of the least-squares line.
pub(super) fn line(points: &[(f64, f64)]) -> (f64, f64, f64) {
    let count = points.len() as f64;
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(&|it| it.0), mean(&|it| it.1));
    let xx = mean(&|it| (it.0 - x) * (it.0 - x));
    let xy = mean(&|it| (it.0 - x) * (it.1 - y));
    let yy = mean(&|it| (it.1 - y) * (it.1 - y));
    let slope = if xx > 0.0 { xy / xx } else { 0.0 };
    let explained = if yy > 0.0 { slope * xy / yy } else { 1.0 };
    (slope, y - slope * x, explained)
}

/// The rank that is always first, if it is closer to where data meets than others.
fn first(job: &JobFacts, fabric: &Fabric) -> Result<Option<Cause>, EvidenceError> {
    let all: u64 = job.first.iter().sum();
    let most = job
        .first
        .iter()
        .enumerate()
        .max_by_key(|(_, times)| **times);
    let Some((rank, &times)) = most.filter(|_| all >= MIN_COLLECTIVES) else {
        return Ok(None);
    };
    let Some(host) = job
        .ranks
        .get(rank)
        .filter(|_| times as f64 >= MIN_FIRST_SHARE * all as f64)
    else {
        return Ok(None);
    };
    let mut far = Vec::new();
    for other in &job.ranks {
        far.push(mean_hops(job, fabric, other)?);
    }
    let least_others = far
        .iter()
        .enumerate()
        .filter(|(other, _)| job.ranks[*other] != *host);
    let least_others = least_others
        .map(|(_, hops)| *hops)
        .fold(f64::INFINITY, f64::min);
    let closer = far[rank] < least_others;
    let said = format!(
        "first in {times} of {all} collectives, {:.1} hops from the others",
        far[rank]
    );
    let subject = Subject::Host(host.clone());
    Ok(closer.then(|| Class::NodeAlwaysFirst.cause(subject, 0.85, said)))
}

fn mean_hops(job: &JobFacts, fabric: &Fabric, host: &str) -> Result<f64, EvidenceError> {
    let hops = reweave_common::routes::hops_to(fabric, node(fabric, host)?);
    let mut sum = 0;
    for other in &job.ranks {
        sum += hops[node(fabric, other)?.index()].unwrap_or(0);
    }
    Ok(f64::from(sum) / job.ranks.len() as f64)
}

/// The job waits for what its hosts compute and not for the fabric.
fn host_bound(job: &JobFacts) -> Option<Cause> {
    let mut compute = job.compute_ms.clone();
    let slowest = compute.iter().copied().fold(0.0, f64::max);
    let usual = super::hosts::median(&mut compute);
    let uneven = slowest > MIN_COMPUTE_RATIO * usual;
    let communicate = job
        .communicate_ms
        .iter()
        .copied()
        .fold(f64::INFINITY, f64::min);
    let share = communicate / (communicate + slowest);
    let known = !job.communicate_ms.is_empty() && !job.compute_ms.is_empty();
    let percent = 100.0 * share;
    let last = job.compute_ms.iter().position(|&ms| ms >= slowest);
    let last = last.and_then(|rank| job.ranks.get(rank));
    let on = last.map_or_else(String::new, |host| format!(" on {host}"));
    let said = format!(
        "the last rank{on} computes {slowest:.1} ms, the median {usual:.1} ms; communication itself is \
         {percent:.0} % of its time"
    );
    (known && uneven && share < MIN_COMMUNICATION_SHARE)
        .then(|| Class::HostBound.cause(job.subject(), 0.8, said))
}

/// Finds a rank that spends far less time in collectives than the others: these wait for it.
fn late(job: &JobFacts) -> Option<Cause> {
    let own = job.communicate_ms.iter().copied().enumerate();
    let (rank, least) = own.min_by(|a, b| a.1.total_cmp(&b.1))?;
    let mut others = job.communicate_ms.clone();
    others.swap_remove(rank);
    let next = others.iter().copied().fold(f64::INFINITY, f64::min);
    let usual = super::hosts::median(&mut others);
    let iteration = job.compute_ms.get(rank)? + least;
    let is_alone = others.len() >= MIN_WAITING_RANKS && least < MAX_WAITING_RATIO * next;
    let waits = usual - least;
    let percent = 100.0 * waits / iteration;
    let said = format!(
        "its collectives take {least:.1} ms of {iteration:.1} ms, those of the others {usual:.1} ms: they wait \
         for it {waits:.1} ms, {percent:.0} % of the time"
    );
    let subject = Subject::Host(job.ranks.get(rank)?.clone());
    let is_much = waits > MIN_WAIT_SHARE * iteration;
    (is_alone && is_much).then(|| Class::Straggler.cause(subject, 0.8, said))
}

/// The wires rest while the processors of one host have no rest: the others wait for it.
fn busy_host(job: &JobFacts, evidence: &Evidence) -> Option<Cause> {
    let rest = job
        .rest_share
        .filter(|&rest| rest > 1.0 - MIN_COMMUNICATION_SHARE)?;
    let hosts = evidence.hosts.iter();
    let of_job = hosts.filter(|host| job.ranks.contains(&host.host));
    let known = of_job.filter_map(|host| Some((&host.host, host.cpu_busy_share?)));
    let known: Vec<_> = known.collect();
    let mut shares: Vec<_> = known.iter().map(|(_, busy)| *busy).collect();
    let usual = super::hosts::median(&mut shares);
    let busiest = known.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let (host, busy) =
        busiest.filter(|(_, busy)| *busy >= MIN_BUSY_SHARE && usual < MAX_BUSY_RATIO * busy)?;
    let [busy, usual, rest] = [*busy, usual, rest].map(|share| 100.0 * share);
    let said = format!(
        "the processors of {host} are busy {busy:.0} % of the time, those of the median host \
         {usual:.0} %; the links are idle {rest:.0} % of an iteration"
    );
    Some(Class::HostBound.cause(job.subject(), 0.75, said))
}
