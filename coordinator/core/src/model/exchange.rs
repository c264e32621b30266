//! The traffic that explains a slow job: what its hosts send each other, by reports of kernels and ranks.

use std::collections::BTreeSet;

use reweave_common::flow::FlowKey;
use reweave_common::ids::NodeId;
use reweave_common::observations::RecentReadings;
use reweave_common::snapshot::FlowState;
use reweave_repair::causes::{EvidencePath, Exchange, ExchangedPair, ExplainedCollective};

use crate::estimate::rank_reports::{RankTransfer, Ranks, ReportedPair, Work};
use crate::model::evidence::{name, named, way};
use crate::model::jobs::Job;
use crate::model::world::{Measurements, World};

/// The exchange of the job with this name.
pub(crate) fn exchange(world: &World<'_>, job: &Job, called: String) -> Exchange {
    let known = world.known;
    let work = Ranks::of(known.ingest).slowest(&job.hosts);
    let sendings = work.iter().flat_map(|work| work.sendings.iter().copied());
    let sendings: Vec<RankTransfer> = sendings.collect();
    let flows = job.flows.iter().map(|flow| of_flow(known, flow, &sendings));
    let reported_pairs = job
        .reported_pairs
        .iter()
        .flat_map(|pair| of_reported(known, pair, &sendings));
    Exchange {
        job: called,
        beat: job.beat(known),
        pairs: flows.chain(reported_pairs).collect(),
        collective: work.map(collective),
    }
}

fn collective(work: Work) -> ExplainedCollective {
    ExplainedCollective {
        name: work.name,
        ms: work.took.map(|took| took.as_secs_f64() * 1e3),
    }
}

fn between(sendings: &[RankTransfer], hosts: [NodeId; 2]) -> Vec<RankTransfer> {
    let between = sendings.iter().filter(|it| it.hosts == hosts);
    between.copied().collect()
}

fn numbers(sending: &RankTransfer) -> [usize; 2] {
    sending.ranks.map(|rank| rank as usize)
}

/// One pair per flow. With several ranks on a host, the rank of a flow is unknown.
fn of_flow(known: Measurements<'_>, flow: &FlowState, sendings: &[RankTransfer]) -> ExchangedPair {
    let ranks = match &between(sendings, [flow.from, flow.to])[..] {
        [only] => Some(numbers(only)),
        _ => None,
    };
    ExchangedPair {
        hosts: [flow.from, flow.to].map(|host| name(known, host)),
        ranks,
        rate: flow.rate,
        busy_share: Some(busy_share(known, &flow.flow, flow)),
        way: way(known, flow).unwrap_or_default(),
        ways: vec![],
    }
}

/// One pair per pair of ranks, if they report it.
fn of_reported(
    known: Measurements<'_>,
    reported: &ReportedPair,
    sendings: &[RankTransfer],
) -> Vec<ExchangedPair> {
    let hosts = [reported.from, reported.to];
    let ways = ways(known, hosts);
    let pair = |ranks, rate| ExchangedPair {
        hosts: hosts.map(|host| name(known, host)),
        ranks,
        rate,
        busy_share: None,
        way: EvidencePath::default(),
        ways: ways.clone(),
    };
    let sendings = between(sendings, hosts);
    if sendings.is_empty() {
        return vec![pair(None, reported.rate)];
    }
    let pairs = sendings.iter();
    pairs.map(|it| pair(Some(numbers(it)), it.rate)).collect()
}

/// The probe paths between the two hosts.
fn ways(known: Measurements<'_>, [from, to]: [NodeId; 2]) -> Vec<EvidencePath> {
    let probes = |host, peer| {
        let observed = known.ingest.observations().node(host).into_iter();
        let flows = observed.flat_map(|it| it.probes.keys().copied());
        flows.filter(move |flow| known.ingest.owner(*flow.destination.ip()) == Some(peer))
    };
    let there = probes(from, to).chain(probes(to, from).map(|flow: FlowKey| flow.reversed()));
    let ways: BTreeSet<_> = there
        .filter_map(|flow| Some(named(known, known.ways.way(&flow)?)))
        .collect();
    ways.into_iter().collect()
}

/// The share of the time that a flow sends, by the bytes of its recent readings.
fn busy_share(known: Measurements<'_>, key: &FlowKey, flow: &FlowState) -> f64 {
    let carried = known.ingest.flow(key).and_then(RecentReadings::carried);
    let sending = flow.rate.bits_per_s().max(1) as f64;
    carried.map_or(1.0, |carried| {
        (carried.bits_per_s() as f64 / sending).min(1.0)
    })
}
