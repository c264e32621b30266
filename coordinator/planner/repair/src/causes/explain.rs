//! Why a job is slow: its slowest collective, the slowest pair of ranks, their path, the worst link on it, and the
//! cause.
//!
//! The collectives come from the job's own report, or its traffic shows what its hosts exchange in each iteration.

use std::collections::BTreeSet;

use reweave_common::fabric::Fabric;
use reweave_common::operator::Explanation;
use reweave_common::periodicity::{ExchangePattern, IterationPeriod};
use reweave_common::units::Rate;

use super::error::EvidenceError;
use super::evidence::{CollectiveFacts, Evidence, JobFacts, PairTime, UNKNOWN_NODE, subject_of};
use super::passages::{EvidencePath, Passage};
use super::{Cause, Class, Subject, diagnose};

/// Below this share of communication time, a job does not wait for the network.
const MIN_COMMUNICATION_SHARE: f64 = 0.1;
/// Pairs that send for nearly as long as any: of those the slowest one is it.
const MIN_SENDING_RATIO: f64 = 0.9;

/// Measured traffic between the hosts of a running job.
#[derive(Debug, Clone)]
pub struct Exchange {
    pub job: String,
    /// Absent if its traffic is not periodic.
    pub beat: Option<IterationPeriod>,
    /// Slowest collective, if the job reports its collectives.
    pub collective: Option<ExplainedCollective>,
    pub pairs: Vec<ExchangedPair>,
}

/// Name in the communication library, and duration of one collective, if known.
#[derive(Debug, Clone)]
pub struct ExplainedCollective {
    pub name: String,
    pub ms: Option<f64>,
}

/// One flow between two of its hosts, or what one of its ranks reports that it sends to another.
#[derive(Debug, Clone)]
pub struct ExchangedPair {
    pub hosts: [String; 2],
    /// Its ranks in the collective, if known.
    pub ranks: Option<[usize; 2]>,
    /// While it sends.
    pub rate: Rate,
    /// Share of the time in which it sends, if known.
    pub busy_share: Option<f64>,
    /// Empty when it is not known.
    pub way: EvidencePath,
    /// Then the paths that probes take between the two.
    pub ways: Vec<EvidencePath>,
}

/// Returns none if there is no such job, or it has no collectives.
pub fn explain(
    evidence: &Evidence,
    fabric: &Fabric,
    job: &str,
) -> Result<Option<Explanation>, EvidenceError> {
    let findings = diagnose(evidence, fabric)?;
    let Some((facts, slowest, pair)) = slowest(evidence, job) else {
        return Ok(None);
    };
    let ranks = [pair.from, pair.to];
    let hosts = ranks.map(|rank| facts.ranks[rank].clone());
    leads_between(pair, &hosts)?;
    let mut explanation = Explanation {
        job: job.to_owned(),
        collective: Some(slowest.name.clone()),
        collective_ms: Some(slowest.ms),
        ranks: Some(ranks),
        hosts,
        pair_ms: Some(pair.ms),
        others_ms: others(slowest, pair),
        doubts: silent(evidence, job, slowest)
            .chain(apart(facts, &findings))
            .collect(),
        ..Explanation::default()
    };
    let way = if pair.path.is_empty() {
        let ways = ways_between(evidence, job, &explanation.hosts);
        supposed(&mut explanation, &ways, fabric, &findings)?
    } else {
        EvidencePath {
            nodes: pair.path.clone(),
            links: pair.links.clone(),
        }
    };
    blame(&mut explanation, &way, fabric, &findings)?;
    if explanation.cause.is_none() && is_even(&explanation) {
        let even = "all pairs take equally long: no single path slows it";
        explanation.doubts.push(even.to_owned());
    }
    Ok(Some(explanation))
}

fn collectives<'e>(
    evidence: &'e Evidence,
    job: &'e str,
) -> impl Iterator<Item = (&'e JobFacts, &'e CollectiveFacts)> {
    let facts = evidence.jobs.iter().filter(move |it| it.job == job);
    facts.flat_map(|facts| facts.collectives.iter().map(move |it| (facts, it)))
}

/// Returns the slowest collective of those with durations of pairs, and its slowest pair.
fn slowest<'e>(
    evidence: &'e Evidence,
    job: &'e str,
) -> Option<(&'e JobFacts, &'e CollectiveFacts, &'e PairTime)> {
    let reports = collectives(evidence, job).filter_map(|(facts, collective)| {
        let pairs = collective.pairs.iter();
        let pair = pairs.max_by(|a, b| a.ms.total_cmp(&b.ms))?;
        Some((facts, collective, pair))
    });
    reports.max_by(|(_, a, _), (_, b, _)| a.ms.total_cmp(&b.ms))
}

/// Returns the collectives without such detail that took longer than it.
fn silent<'e>(
    evidence: &'e Evidence,
    job: &'e str,
    slowest: &'e CollectiveFacts,
) -> impl Iterator<Item = String> + 'e {
    let longer = collectives(evidence, job).filter(|(_, it)| it.ms > slowest.ms);
    longer.map(|(_, CollectiveFacts { name, ms, .. })| {
        format!("{name} took longer, {ms:.3} ms, and does not say between whom")
    })
}

/// Those of the job's own flows, or else of probes.
fn ways_between(evidence: &Evidence, job: &str, ends: &[String; 2]) -> Vec<EvidencePath> {
    let flows = evidence.flows.iter();
    let own = flows.filter(|it| it.job.as_deref() == Some(job));
    let own = own.filter_map(|it| way_between(&it.path, &it.links, ends));
    let mut ways: BTreeSet<_> = own.collect();
    if ways.is_empty() {
        let probes = evidence.probes.iter();
        ways.extend(probes.filter_map(|it| way_between(&it.path, &it.links, ends)));
    }
    ways.into_iter().collect()
}

/// Returns the part of a path that leads from one node to the other.
fn way_between(
    nodes: &[String],
    links: &[String],
    [from, to]: &[String; 2],
) -> Option<EvidencePath> {
    let first = nodes.iter().position(|it| it == from)?;
    let last = first + nodes[first..].iter().position(|it| it == to)?;
    Some(EvidencePath {
        nodes: nodes[first..=last].to_vec(),
        links: links.get(first..last).unwrap_or_default().to_vec(),
    })
}

/// Ranks on hosts that do not know how late it is.
fn apart<'e>(facts: &'e JobFacts, findings: &'e [Cause]) -> impl Iterator<Item = String> + 'e {
    let clocks = findings.iter().filter(|it| it.class == Class::ClocksApart);
    let hosts = clocks.filter_map(|it| match &it.subject {
        Subject::Host(host) => facts.ranks.contains(host).then_some(host),
        _ => None,
    });
    hosts.map(|host| {
        format!(
            "the clock of {host} is apart: where times were taken by several clocks, another pair may be the slowest"
        )
    })
}

/// A path that is given must be one between the two.
fn leads_between(pair: &PairTime, hosts: &[String; 2]) -> Result<(), EvidenceError> {
    let ends = [pair.path.first(), pair.path.last()];
    let is_theirs = ends == hosts.each_ref().map(Some);
    let has_path = !pair.path.is_empty();
    if has_path && !is_theirs {
        Err(EvidenceError::OtherEnds {
            path: pair.path.join(">"),
            hosts: hosts.clone(),
        })
    } else {
        Ok(())
    }
}

fn is_even(explanation: &Explanation) -> bool {
    let times = explanation.pair_ms.zip(explanation.others_ms);
    times.is_some_and(|(pair, others)| pair * MIN_SENDING_RATIO <= others)
}

fn others(collective: &CollectiveFacts, pair: &PairTime) -> Option<f64> {
    let others = collective.pairs.iter();
    let others = others.filter(|it| (it.from, it.to) != (pair.from, pair.to));
    median(others.map(|it| it.ms).collect())
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    (!values.is_empty()).then(|| super::hosts::median(&mut values))
}

/// The same of a job that says nothing of itself: its collective is what its hosts exchange in each
/// iteration. Nothing when they exchange nothing.
pub fn explain_exchange(
    exchange: &Exchange,
    fabric: &Fabric,
    findings: &[Cause],
) -> Result<Option<Explanation>, EvidenceError> {
    let Some((slowest, others)) = exchange.slowest() else {
        return Ok(None);
    };
    let beat = exchange.beat.filter(|beat| !beat.period.is_zero());
    let period_ms = beat.map(|beat| 1e3 * beat.period.as_secs_f64());
    let ms = |pair: &ExchangedPair| Some(pair.busy_share? * period_ms?);
    let (collective, collective_ms) = exchange.collective(beat);
    let rates = others.iter().map(|it| it.rate.bits_per_s() as f64);
    let mut explanation = Explanation {
        job: exchange.job.clone(),
        iteration_ms: period_ms,
        collective,
        collective_ms,
        ranks: slowest.ranks,
        hosts: slowest.hosts.clone(),
        pair_ms: ms(slowest),
        others_ms: median(others.iter().filter_map(|it| ms(it)).collect()),
        pair_bits_per_s: Some(slowest.rate),
        others_bits_per_s: median(rates.collect()).map(|it| Rate::from_bits_per_s(it as u64)),
        ..Explanation::default()
    };
    let way = if slowest.way.nodes.is_empty() {
        supposed(&mut explanation, &slowest.ways, fabric, findings)?
    } else {
        slowest.way.clone()
    };
    blame(&mut explanation, &way, fabric, findings)?;
    if let Some(beat) = beat.filter(|_| explanation.cause.is_none()) {
        explanation.doubts.extend(rest(&beat));
    }
    Ok(Some(explanation))
}

/// Returns the path supposed from paths of other flows: those over a problem, if any, as far as they agree.
fn supposed(
    explanation: &mut Explanation,
    ways: &[EvidencePath],
    fabric: &Fabric,
    findings: &[Cause],
) -> Result<EvidencePath, EvidenceError> {
    let wrong = findings.iter().filter(|it| it.class.slows());
    let wrong: Vec<_> = wrong.filter(|it| distance(&it.subject) < 2).collect();
    let mut suspect = Vec::new();
    for way in ways {
        let hops = crossed(fabric, &way.passages(fabric)?);
        let is_wrong = |hop: &Subject| wrong.iter().any(|it| hop.touches(&it.subject));
        if hops.iter().any(is_wrong) {
            suspect.push(way.clone());
        }
    }
    let (some, all) = (suspect.len(), ways.len());
    if (1..all).contains(&some) {
        explanation.doubts.push(format!(
            "its own path is unknown: {some} of the {all} known paths there use the named element"
        ));
    }
    let ways = if some > 0 { &suspect } else { ways };
    let of = |names: fn(&EvidencePath) -> &Vec<String>| {
        let all: Vec<_> = ways.iter().map(names).collect();
        common(&all)
    };
    Ok(EvidencePath {
        nodes: of(|way| &way.nodes),
        links: of(|way| &way.links),
    })
}

/// All hops that it may lead over.
fn crossed(fabric: &Fabric, way: &[Passage]) -> Vec<Subject> {
    let hops = way.iter().flat_map(|it| it.each(fabric));
    hops.map(|hop| subject_of(fabric, hop)).collect()
}

/// Returns the common part of the paths; none if their lengths differ.
fn common(all: &[&Vec<String>]) -> Vec<String> {
    let Some((first, others)) = all.split_first() else {
        return vec![];
    };
    if others.iter().any(|other| other.len() != first.len()) {
        return vec![];
    }
    first
        .iter()
        .enumerate()
        .map(|(place, name)| {
            if others.iter().all(|it| it[place] == *name) {
                name.clone()
            } else {
                UNKNOWN_NODE.to_owned()
            }
        })
        .collect()
}

/// Returns the communication time of an iteration in seconds.
fn wires(beat: &IterationPeriod) -> f64 {
    beat.period.saturating_sub(beat.gap).as_secs_f64()
}

fn exchanged(beat: &IterationPeriod) -> String {
    let shape = match beat.shape {
        Some(ExchangePattern::Ring) => "around a ring",
        Some(ExchangePattern::AllToAll) => "from all to all",
        Some(ExchangePattern::Pipeline) => "along a pipeline",
        None => "between its hosts",
    };
    format!("what an iteration sends {shape}")
}

fn rest(beat: &IterationPeriod) -> Option<String> {
    let share = wires(beat) / beat.period.as_secs_f64();
    let percent = 100.0 * (1.0 - share);
    (share < MIN_COMMUNICATION_SHARE).then(|| {
        format!("the wires rest {percent:.0} % of the time: it is not the fabric that it waits for")
    })
}

impl Exchange {
    /// Returns the collective that the job reports, or else what its traffic shows, with its duration.
    fn collective(&self, beat: Option<IterationPeriod>) -> (Option<String>, Option<f64>) {
        match &self.collective {
            Some(report) => (Some(report.name.clone()), report.ms),
            None => (
                beat.map(|beat| exchanged(&beat)),
                beat.map(|beat| 1e3 * wires(&beat)),
            ),
        }
    }

    /// Returns the slowest of the flows that send the longest, and all others.
    fn slowest(&self) -> Option<(&ExchangedPair, Vec<&ExchangedPair>)> {
        let share = |pair: &ExchangedPair| pair.busy_share.unwrap_or(1.0);
        let longest = self.pairs.iter().map(share).fold(0.0, f64::max);
        let long = |(_, pair): &(usize, &ExchangedPair)| share(pair) >= MIN_SENDING_RATIO * longest;
        let pairs = self.pairs.iter().enumerate();
        let (place, slowest) = pairs.filter(long).min_by_key(|(_, pair)| pair.rate)?;
        let others = self.pairs.iter().enumerate();
        let others = others.filter(|(other, _)| *other != place);
        Some((slowest, others.map(|(_, pair)| pair).collect()))
    }
}

fn distance(subject: &Subject) -> u8 {
    match subject {
        Subject::Hop { .. } | Subject::Link { .. } | Subject::Pair(_) => 0,
        Subject::Ambiguous(_) | Subject::All(_) => 1,
        Subject::Host(_) | Subject::Switch(_) => 2,
        Subject::Job(_) => 3,
    }
}

/// Returns a doubt if the path crosses one of parallel links, and it is unknown which.
fn unsure(fabric: &Fabric, way: &[Passage]) -> Option<String> {
    let Passage { hop, .. } = way.iter().find(|it| !it.is_sure)?;
    let to = fabric.link(hop.link).far(hop.from).node;
    let [from, to] = [hop.from, to].map(|node| fabric.name(node));
    Some(format!(
        "which of the parallel links from {from} to {to} it uses is unknown"
    ))
}

/// A finding about one of the hosts, a link of the path, or the job itself.
fn blame(
    explanation: &mut Explanation,
    way: &EvidencePath,
    fabric: &Fabric,
    findings: &[Cause],
) -> Result<(), EvidenceError> {
    explanation.path.clone_from(&way.nodes);
    if !way.is_known() {
        let [from, to] = &explanation.hosts;
        explanation
            .doubts
            .push(format!("not every hop from {from} to {to} is known"));
    }
    let passages = way.passages(fabric)?;
    explanation.doubts.extend(unsure(fabric, &passages));
    let on_path = crossed(fabric, &passages);
    let concerns = |finding: &&Cause| match &finding.subject {
        Subject::Job(job) => *job == explanation.job,
        Subject::Host(host) => explanation.hosts.contains(host),
        Subject::Pair(pair) => pair.iter().all(|host| explanation.hosts.contains(host)),
        other => on_path.iter().any(|hop| hop.touches(other)),
    };
    // Findings about the path win over those about its ends; then the surest wins.
    let concerned = findings
        .iter()
        .filter(|it| it.class.slows())
        .filter(concerns);
    explanation.cause = concerned.min_by_key(|it| distance(&it.subject)).cloned();
    if let Some(cause) = &mut explanation.cause
        && cause.jobs.is_empty()
    {
        cause.jobs.push(explanation.job.clone());
    }
    let blamed = explanation.cause.as_ref().map(|cause| &cause.subject);
    let is_blamed = |hop: &&Subject| blamed.is_some_and(|subject| hop.touches(subject));
    explanation.link = on_path.iter().find(is_blamed).cloned();
    if explanation.cause.is_none() {
        explanation
            .doubts
            .push("no measurement explains it".to_owned());
    }
    Ok(())
}
