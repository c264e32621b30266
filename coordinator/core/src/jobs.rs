//! Which hosts work together, as their traffic shows it, whatever orchestrators tell of jobs.
//!
//! Whoever exchanges large flows, directly or through others, works for one job. It is called after its
//! hosts.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::fabric::Fabric;
use reweave_common::flow::FlowKey;
use reweave_common::ids::NodeId;
use reweave_common::rhythm::{Beat, Rhythm};
use reweave_common::snapshot::FlowState;
use reweave_planner::Together;
use reweave_planner::causes::{Exchange, ExchangedPair, JobFacts};

use crate::evidence::{name, path};
use crate::model::{Known, Picture};

/// The hosts of a job and what they send each other; none when it is of nobody.
#[derive(Debug, Clone, Default)]
pub(crate) struct Job {
    pub(crate) hosts: BTreeSet<NodeId>,
    pub(crate) flows: Vec<FlowState>,
}

/// All jobs there are now, in the order of their first hosts.
pub(crate) fn jobs(picture: &Picture<'_>) -> Vec<Job> {
    together(picture, elephants(picture))
}

/// Whose hosts these flows join.
pub(crate) fn together(picture: &Picture<'_>, flows: Vec<FlowState>) -> Vec<Job> {
    let mut together = Together::new(picture.known.fabric.nodes().len());
    for flow in &flows {
        together.join(flow.from.index(), flow.to.index());
    }
    let mut jobs: BTreeMap<usize, Job> = BTreeMap::new();
    for flow in flows {
        let job = jobs.entry(together.first(flow.from.index())).or_default();
        job.hosts.extend([flow.from, flow.to]);
        job.flows.push(flow);
    }
    jobs.into_values().collect()
}

/// Of these hosts alone, whoever else they exchange flows with.
pub(crate) fn job_of(picture: &Picture<'_>, hosts: BTreeSet<NodeId>) -> Job {
    let is_inside = |flow: &FlowState| hosts.contains(&flow.from) && hosts.contains(&flow.to);
    let flows = elephants(picture).into_iter().filter(is_inside);
    Job {
        flows: flows.collect(),
        hosts,
    }
}

fn elephants(picture: &Picture<'_>) -> Vec<FlowState> {
    let mut flows = picture.flows();
    flows.retain(|flow| picture.known.is_elephant(flow.rate));
    flows
}

impl Job {
    pub(crate) fn name(&self, fabric: &Fabric) -> String {
        let mut hosts = self.hosts.iter().map(|&host| fabric.name(host));
        let first = hosts.next().unwrap_or_default();
        match (hosts.next(), hosts.count()) {
            (None, _) => first.to_owned(),
            (Some(second), 0) => format!("{first} and {second}"),
            (Some(_), more) => format!("{first} and {} others", more + 1),
        }
    }

    /// What a diagnosis goes by.
    pub(crate) fn facts(&self, picture: &Picture<'_>) -> JobFacts {
        let fabric = picture.fabric();
        let ranks = self.hosts.iter();
        JobFacts {
            job: self.name(fabric),
            ranks: ranks.map(|&host| fabric.name(host).to_owned()).collect(),
            ring: self.ring().unwrap_or_default(),
            rest_share: self.rest_share(picture.known),
            ..JobFacts::default()
        }
    }

    /// The beat of its traffic that is surest.
    pub(crate) fn beat(&self, known: Known<'_>) -> Option<Beat> {
        let beats = self.hosts.iter().filter_map(|&host| beat(known, host));
        beats.max_by_key(|beat| beat.confidence_percent)
    }

    pub(crate) fn rest_share(&self, known: Known<'_>) -> Option<f64> {
        let beat = self.beat(known)?;
        let period = Some(beat.period.as_secs_f64()).filter(|period| *period > 0.0)?;
        Some((beat.gap.as_secs_f64() / period).min(1.0))
    }

    /// The places of its hosts in the order of a ring, where each sends to one other and all are on it.
    fn ring(&self) -> Option<Vec<usize>> {
        let mut next = BTreeMap::new();
        for flow in &self.flows {
            let known = next.insert(flow.from, flow.to);
            known.is_none_or(|to| to == flow.to).then_some(())?;
        }
        let places: BTreeMap<_, _> = self.hosts.iter().zip(0..).collect();
        let mut ring = Vec::new();
        let mut at = *self.hosts.first()?;
        for _ in &self.hosts {
            ring.push(*places.get(&at)?);
            at = *next.get(&at)?;
        }
        let once: BTreeSet<_> = ring.iter().collect();
        (once.len() == places.len() && ring.len() > 2).then_some(ring)
    }

    /// What explains it, as a job of this name.
    pub(crate) fn exchange(&self, picture: &Picture<'_>, job: String) -> Exchange {
        let known = picture.known;
        let pair = |flow: &FlowState| ExchangedPair {
            hosts: [flow.from, flow.to].map(|host| name(known, host)),
            rate: flow.rate,
            busy_share: busy_share(known, &flow.flow, flow),
            path: path(known, flow).unwrap_or_default(),
        };
        Exchange {
            job,
            beat: self.beat(known),
            pairs: self.flows.iter().map(pair).collect(),
        }
    }
}

fn beat(known: Known<'_>, host: NodeId) -> Option<Beat> {
    let observed = known.ingest.observations().node(host)?;
    match observed.host.rhythm.as_ref()?.value {
        Rhythm::Found(beat) => Some(beat),
        Rhythm::Unknown { .. } | Rhythm::None { .. } => None,
    }
}

/// The part of the time that a flow sends, by the bytes of the readings that are kept of it.
fn busy_share(known: Known<'_>, key: &FlowKey, flow: &FlowState) -> f64 {
    let all = || {
        let mut readings = known.ingest.flow(key)?.backwards();
        let newest = readings.next()?;
        let oldest = readings.last()?;
        let sent = newest.value.bytes.count();
        let sent = sent.saturating_sub(oldest.value.bytes.count()) as f64;
        let seconds = newest.at.since(oldest.at).as_secs_f64();
        let most = flow.rate.bits_per_s() as f64 / 8.0 * seconds;
        (most > 0.0).then(|| (sent / most).min(1.0))
    };
    all().unwrap_or(1.0)
}
