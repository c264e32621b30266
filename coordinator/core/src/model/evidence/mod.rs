//! The evidence for a diagnosis, from present measurements.

mod partial_traces;
mod ports;
mod rail_order;

use std::collections::BTreeMap;

use reweave_common::bandwidth::Bandwidth;
use reweave_common::hardware::Machine;
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::moment::Moment;
use reweave_common::observations::NodeObservations;
use reweave_common::probing::ProbeWindow;
use reweave_common::rdma::RdmaReading;
use reweave_common::snapshot::{FlowState, Hop};
use reweave_common::units::Rate;
use reweave_repair::causes::{
    Evidence, EvidencePath, FlowFacts, HostFacts, JobFacts, PairFacts, Probed, Trace, UnsentFacts,
    losses,
};

use crate::estimate::rank_reports::Ranks;
use crate::ingest::admission::Admissions;
use crate::model::jobs::{Job, jobs};
use crate::model::world::{Measurements, World};

pub(crate) use ports::{congested, rdma_device, speed};

/// The sender, the receiver and the rail.
type Between = (NodeId, NodeId, u32);

pub(crate) fn evidence(world: &World<'_>, arrivals: &Admissions) -> Evidence {
    let jobs = jobs(world);
    Evidence {
        probes: probes(world),
        ports: ports::ports(world),
        hosts: hosts(world, arrivals),
        flows: jobs.iter().flat_map(|job| facts(world, job)).collect(),
        jobs: job_facts(world, &jobs),
        traces: traces(world.known),
        series: ports::series(world),
        pairs: pairs(world),
    }
}

/// Jobs that send now, and idle ones; hosts with some idle flows are one job.
fn job_facts(world: &World<'_>, jobs: &[Job]) -> Vec<JobFacts> {
    let ranks = Ranks::of(world.known.ingest);
    let facts = jobs.iter().map(|job| job.facts(world, &ranks));
    let mut facts: Vec<_> = facts.collect();
    for resting in world.known.resting.jobs(world) {
        match facts.iter_mut().find(|it| it.job == resting.job) {
            Some(same) => same.will_send.extend(resting.will_send),
            None => facts.push(resting),
        }
    }
    facts.extend(world.known.resting.announced_jobs(world));
    facts
}

/// The loss of each link that loses probes.
pub(crate) fn lossy(world: &World<'_>) -> BTreeMap<LinkId, f64> {
    let evidence = Evidence {
        probes: probes(world),
        ..Evidence::default()
    };
    let (evidence, _) = evidence.sifted(world.fabric());
    losses(&evidence, world.fabric()).unwrap_or_default()
}

pub(crate) fn name(known: Measurements<'_>, node: NodeId) -> String {
    known.fabric.name(node).to_owned()
}

/// The nodes of a path from its start, and its links where the names of nodes do not identify them.
pub(crate) fn named(known: Measurements<'_>, way: &[Hop]) -> EvidencePath {
    let fabric = known.fabric;
    let ends = way
        .iter()
        .map(|hop| fabric.link(hop.link).far(hop.from).node);
    let first = way.first().map(|hop| hop.from);
    let is_plain = way.iter().all(|hop| !fabric.is_parallel(hop.link));
    let links = way.iter().filter(|_| !is_plain);
    EvidencePath {
        nodes: first
            .into_iter()
            .chain(ends)
            .map(|node| name(known, node))
            .collect(),
        links: links.map(|hop| fabric.link_name(hop.link)).collect(),
    }
}

/// The last node of a path.
fn end(known: Measurements<'_>, way: &[Hop]) -> Option<NodeId> {
    let last = way.last()?;
    Some(known.fabric.link(last.link).far(last.from).node)
}

/// The path of a flow, if it is completely known.
pub(crate) fn way(known: Measurements<'_>, flow: &FlowState) -> Option<EvidencePath> {
    Some(named(known, flow.path.as_deref()?))
}

/// The flows of a job with known paths.
fn facts(world: &World<'_>, job: &Job) -> Vec<FlowFacts> {
    let name = job.name(world.known);
    let fact = |flow: &FlowState| {
        let way = way(world.known, flow)?;
        Some(FlowFacts {
            path: way.nodes,
            links: way.links,
            gbps: flow.rate.gbps(),
            most_gbps: Some(flow.rate_range[1].gbps()),
            readings: world.readings(&flow.flow),
            job: Some(name.clone()),
        })
    };
    job.flows.iter().filter_map(fact).collect()
}

/// Probes whose paths are known in both directions, or end at silent routers, and that passed no full queue.
fn probes(world: &World<'_>) -> Vec<Probed> {
    let (known, congested) = (world.known, ports::congested(world));
    let is_free = |way: &[Hop]| !way.iter().any(|hop| congested.contains(hop));
    let mut probes = Vec::new();
    for (from, node) in known.ingest.observations().nodes() {
        for (flow, window) in &node.probes {
            let ways = [*flow, flow.reversed()].map(|flow| known.ways.way(&flow));
            if let [Some(there), Some(back)] = ways
                && is_free(there)
                && is_free(back)
            {
                let [there, back] = [there, back].map(|way| named(known, way));
                probes.extend(probed_ends(window, there, back));
            } else if window.outcome().1.count() > 0
                && let Some([there, back]) = partial_traces::ways(world, from, flow)
            {
                probes.extend(probed_ends(window, there, back));
            }
        }
    }
    probes
}

/// Each direction by itself, if it is known which one lost a probe.
fn probed_ends(window: &ProbeWindow, there: EvidencePath, back: EvidencePath) -> Vec<Probed> {
    let ((answered, lost), large) = (window.outcome(), window.large());
    let sent = answered.saturating_add(lost.count());
    let probed = |way: EvidencePath, sent, lost| Probed {
        path: way.nodes,
        links: way.links,
        sent,
        lost,
        ..Probed::default()
    };
    // Only in this direction are large probes counted separately.
    let with_large = |probed| Probed {
        large_sent: large.sent(),
        large_lost: large.lost.into(),
        ..probed
    };
    if lost.somewhere > 0 {
        return vec![with_large(probed(there.and_on(back), sent, lost.count()))];
    }
    let arrived = answered.saturating_add(lost.back.into());
    vec![
        with_large(probed(there, sent, lost.there.into())),
        probed(back, arrived, lost.back.into()),
    ]
}

fn hosts(world: &World<'_>, arrivals: &Admissions) -> Vec<HostFacts> {
    let known = world.known;
    let hosts = known.fabric.endpoints();
    let facts = hosts.map(|host| {
        let skew_us = arrivals.skew_us(host);
        let observed = known.ingest.observations().node(host);
        let machine = observed.and_then(|it| it.host.machine.as_ref());
        let busy = machine.and_then(|it| it.value.cpu_busy_percent);
        let nics = ports::of_nics(world, host);
        HostFacts {
            host: name(known, host),
            clock_skew_ms: skew_us.map(|us| us as f64 / 1e3),
            cpu_busy_share: busy.map(|percent| f64::from(percent.min(100)) / 100.0),
            unsent: observed.map(|it| unsent(known, it)).unwrap_or_default(),
            settings: settings(machine.map(|it| &it.value), nics.settings)
                .into_iter()
                .chain(rail_order::order(world, host))
                .collect(),
            ..nics
        }
    });
    facts.collect()
}

type Settings = BTreeMap<String, String>;

/// Returns the host's settings other than those of its NICs.
fn settings(machine: Option<&Machine>, of_nics: Settings) -> Settings {
    let of_host = machine.into_iter().flat_map(|it| &it.settings);
    let of_host = of_host.map(|it| (it.name.clone(), it.value.clone()));
    of_host.chain(of_nics).collect()
}

/// By peer, the probes that the host's own kernel did not send.
pub(crate) fn unsent(known: Measurements<'_>, observed: &NodeObservations) -> Vec<UnsentFacts> {
    // Most hosts send all their probes, so that no window needs a look.
    if observed.unsent.is_none() {
        return Vec::new();
    }
    let mut peers: BTreeMap<NodeId, UnsentFacts> = BTreeMap::new();
    for (flow, window) in &observed.probes {
        let Some(to) = known.ingest.owner(*flow.destination.ip()) else {
            continue;
        };
        let ((answered, lost), unsent) = (window.outcome(), window.unsent());
        let facts = peers.entry(to).or_default();
        facts.due += answered + lost.count() + unsent.count();
        facts.forbidden += u64::from(unsent.forbidden);
        facts.no_room += u64::from(unsent.no_room);
        facts.no_way += u64::from(unsent.no_way);
    }
    peers.retain(|_, facts| facts.count() > 0);
    let named = peers.into_iter().map(|(to, facts)| UnsentFacts {
        to: name(known, to),
        ..facts
    });
    named.collect()
}

/// The number of routers between hosts, each way, by probes.
fn traces(known: Measurements<'_>) -> Vec<Trace> {
    let mut traces = BTreeMap::new();
    for (from, node) in known.ingest.observations().nodes() {
        for (flow, window) in &node.probes {
            let to = known.ingest.owner(*flow.destination.ip());
            if let (Some(to), Some(routers)) = (to, window.routers()) {
                traces.insert((from, to), routers);
            }
        }
    }
    let trace =
        |((from, to), routers): ((NodeId, NodeId), reweave_common::probing::Routers)| Trace {
            from: name(known, from),
            to: name(known, to),
            hops_there: u32::from(routers.there),
            hops_back: u32::from(routers.back),
        };
    traces.into_iter().map(trace).collect()
}

/// Bandwidth measured by trains or over RDMA while links are idle, rail by rail.
fn pairs(world: &World<'_>) -> Vec<PairFacts> {
    let measured = measured(world).into_iter();
    measured.map(|(pair, _)| pair).collect()
}

/// The slowest of the paths from each host to each other on each rail, and the time of its measurement. NICs for
/// storage or management do not count.
pub(crate) fn measured(world: &World<'_>) -> Vec<(PairFacts, Moment)> {
    let known = world.known;
    let mut rates: BTreeMap<Between, (Rate, Moment)> = BTreeMap::new();
    let mut note = |way, rate: Rate, at| {
        let narrowest = rates.entry(way).or_insert((rate, at));
        *narrowest = (rate, at).min(*narrowest);
    };
    for (from, node) in known.ingest.observations().nodes() {
        for aged in node.bandwidths.values() {
            let flow = aged.value.flow;
            if !world.is_of_training(&flow) {
                continue;
            }
            let to = known.ingest.owner(*flow.destination.ip());
            if let (Some(to), Bandwidth::Known { rate, .. }) = (to, &aged.value.bandwidth) {
                let rail = world.rail(from, *flow.source.ip());
                note((from, to, rail), *rate, aged.at);
            }
        }
        for aged in node.host.rdma.values() {
            let peer = aged.value.peer();
            if !world.wiring.is_for_training(peer) {
                continue;
            }
            let to = known.ingest.owner(peer);
            if let (Some(to), RdmaReading::Bandwidth(measured)) = (to, &aged.value) {
                note((from, to, world.rail(to, peer)), measured.rate(), aged.at);
            }
        }
    }
    rates
        .into_iter()
        .map(|((from, to, rail), (rate, at))| {
            let facts = PairFacts {
                from: name(known, from),
                to: name(known, to),
                rail,
                gbps: rate.gbps(),
            };
            (facts, at)
        })
        .collect()
}
