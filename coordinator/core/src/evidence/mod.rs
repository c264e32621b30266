//! What a diagnosis goes by, as the cluster is measured now.

mod ports;

use std::collections::BTreeMap;

use reweave_common::bandwidth::Bandwidth;
use reweave_common::ids::NodeId;
use reweave_common::probing::Lost;
use reweave_common::rdma::RdmaReading;
use reweave_common::snapshot::{FlowState, Hop};
use reweave_common::units::Rate;
use reweave_planner::causes::{Evidence, FlowFacts, HostFacts, PairFacts, Probed, Trace};

use crate::arrivals::Arrivals;
use crate::model::{Known, Picture};

pub(crate) fn evidence(picture: &Picture<'_>, arrivals: &Arrivals) -> Evidence {
    let flows = picture.flows();
    let elephants = flows
        .iter()
        .filter(|flow| picture.known.is_elephant(flow.rate));
    Evidence {
        probes: probes(picture),
        ports: ports::ports(picture),
        hosts: hosts(picture, arrivals),
        flows: elephants.filter_map(|flow| facts(picture, flow)).collect(),
        traces: traces(picture.known),
        series: ports::series(picture),
        pairs: pairs(picture),
        ..Evidence::default()
    }
}

fn name(known: Known<'_>, node: NodeId) -> String {
    known.fabric.name(node).to_owned()
}

/// The nodes that a way passes, from the one where it begins.
fn nodes(known: Known<'_>, way: &[Hop]) -> Vec<String> {
    let ends = way
        .iter()
        .map(|hop| known.fabric.link(hop.link).far(hop.from).node);
    let first = way.first().map(|hop| hop.from);
    let all = first.into_iter().chain(ends);
    all.map(|node| name(known, node)).collect()
}

fn facts(picture: &Picture<'_>, flow: &FlowState) -> Option<FlowFacts> {
    Some(FlowFacts {
        path: nodes(picture.known, flow.path.as_deref()?),
        gbps: flow.rate.gbps(),
        job: None,
    })
}

/// Probes whose ways are known, there and back, and pass no queue that was full.
fn probes(picture: &Picture<'_>) -> Vec<Probed> {
    let (known, congested) = (picture.known, ports::congested(picture));
    let is_free = |way: &[Hop]| !way.iter().any(|hop| congested.contains(hop));
    let mut probes = Vec::new();
    for (_, node) in known.ingest.observations().nodes() {
        for (flow, window) in &node.probes {
            let ways = [*flow, flow.reversed()].map(|flow| known.ways.way(&flow));
            if let [Some(there), Some(back)] = ways
                && is_free(there)
                && is_free(back)
            {
                let [there, back] = [there, back].map(|way| nodes(known, way));
                probes.extend(told(window.outcome(), there, back));
            }
        }
    }
    probes
}

/// Each direction by itself, where it is known which of them lost a probe.
fn told((answered, lost): (u64, Lost), there: Vec<String>, back: Vec<String>) -> Vec<Probed> {
    let sent = answered.saturating_add(lost.count());
    let probed = |path, sent, lost| Probed {
        path,
        sent,
        lost,
        large_sent: 0,
        large_lost: 0,
    };
    if lost.somewhere > 0 {
        let round: Vec<_> = there.into_iter().chain(back.into_iter().skip(1)).collect();
        return vec![probed(round, sent, lost.count())];
    }
    let arrived = answered.saturating_add(lost.back);
    vec![
        probed(there, sent, lost.there),
        probed(back, arrived, lost.back),
    ]
}

fn hosts(picture: &Picture<'_>, arrivals: &Arrivals) -> Vec<HostFacts> {
    let known = picture.known;
    let hosts = known.fabric.endpoints();
    let facts = hosts.map(|host| {
        let skew_us = arrivals.skew_us(host);
        let observed = known.ingest.observations().node(host);
        let machine = observed.and_then(|it| it.host.machine.as_ref());
        let busy = machine.and_then(|it| it.value.cpu_busy_percent);
        HostFacts {
            host: name(known, host),
            clock_skew_ms: skew_us.map(|us| us as f64 / 1e3),
            cpu_busy_share: busy.map(|percent| f64::from(percent) / 100.0),
            ..ports::of_nics(picture, host)
        }
    });
    facts.collect()
}

/// How many routers lie between hosts, each way, as probes tell.
fn traces(known: Known<'_>) -> Vec<Trace> {
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

/// Measured by trains or over RDMA while the wires rest, rail by rail.
fn pairs(picture: &Picture<'_>) -> Vec<PairFacts> {
    let known = picture.known;
    let mut rates: BTreeMap<(NodeId, NodeId, u32), Rate> = BTreeMap::new();
    let mut note = |from, to, rail, rate: Rate| {
        let narrowest = rates.entry((from, to, rail)).or_insert(rate);
        *narrowest = rate.min(*narrowest);
    };
    for (from, node) in known.ingest.observations().nodes() {
        for aged in node.bandwidths.values() {
            let flow = aged.value.flow;
            let to = known.ingest.owner(*flow.destination.ip());
            if let (Some(to), Bandwidth::Known { rate, .. }) = (to, &aged.value.bandwidth) {
                note(from, to, picture.rail(from, *flow.source.ip()), *rate);
            }
        }
        for aged in node.host.rdma.values() {
            let to = known.ingest.owner(aged.value.peer());
            if let (Some(to), RdmaReading::Bandwidth(measured)) = (to, &aged.value) {
                note(
                    from,
                    to,
                    picture.rail(to, aged.value.peer()),
                    measured.rate(),
                );
            }
        }
    }
    let pair = |((from, to, rail), rate): ((NodeId, NodeId, u32), Rate)| PairFacts {
        from: name(known, from),
        to: name(known, to),
        rail,
        gbps: rate.gbps(),
    };
    rates.into_iter().map(pair).collect()
}
