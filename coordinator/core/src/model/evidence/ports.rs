//! Evidence from interfaces and NICs.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::hardware::{Mac, NicReport, Pcie};
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::snapshot::Hop;
use reweave_common::units::Rate;
use reweave_repair::causes::{HostFacts, PortFacts, Series};

use super::name;
use crate::estimate::counter_trends::CounterTrends;
use crate::estimate::link_latency::{Latencies, PathSegment};
use crate::estimate::link_loss::Losses;
use crate::model::fibre_macs;
use crate::model::world::{Measurements, World};

/// Every end of a link whose interface is known.
fn ends<'p>(world: &'p World<'_>) -> impl Iterator<Item = (Hop, &'p str)> {
    let links = world.fabric().links();
    let hops = links.flat_map(|(link, between)| {
        between.ports().map(|port| Hop {
            from: port.node,
            link,
        })
    });
    hops.filter_map(|hop| Some((hop, &world.wiring.end(hop)?.interface[..])))
}

pub(super) fn ports(world: &World<'_>) -> Vec<PortFacts> {
    ends(world)
        .map(|(hop, interface)| port(world, hop, interface))
        .collect()
}

fn port(world: &World<'_>, hop: Hop, interface: &str) -> PortFacts {
    let known = world.known;
    let counted = known.trends.lately(hop.from, interface).unwrap_or_default();
    let nic = nic(world, hop.from, interface);
    let load = world.load(hop);
    PortFacts {
        node: name(known, hop.from),
        peer: name(known, known.fabric.link(hop.link).far(hop.from).node),
        link: parallel(known, hop.link),
        frame_error_share: counted.frame_errors.share(),
        corrected_bit_share: counted.corrected_bits.share(),
        link_downs: counted.link_downs.0,
        paused_share: counted.paused_share(),
        pause_storms: counted.pause_storms.0,
        oversized: counted.oversized.0,
        send_drops: counted.send_drops.0,
        mtu_bytes: nic.and_then(|nic| nic.mtu_bytes),
        sent_gbps: load.map(Rate::gbps),
        speed_gbps: speed(world, hop).map(Rate::gbps),
        fec: nic.and_then(|nic| nic.fec).map(|fec| fec.to_string()),
    }
}

/// The link's name, if the names of its ends do not identify it.
fn parallel(known: Measurements<'_>, link: LinkId) -> Option<String> {
    let is_parallel = known.fabric.is_parallel(link);
    is_parallel.then(|| known.fabric.link_name(link))
}

/// The rate that this end of a link reports.
pub(crate) fn speed(world: &World<'_>, end: Hop) -> Option<Rate> {
    let interface = &world.wiring.end(end)?.interface;
    nic(world, end.from, interface)?.speed
}

/// The RDMA device whose packets use this end of a link.
pub(crate) fn rdma_device<'p>(world: &'p World<'_>, end: Hop) -> Option<&'p str> {
    let interface = match world.wiring.end(end) {
        Some(end) => &end.interface,
        None => &world.fabric().fibre_of(end.from, end.link)?.interface,
    };
    nic(world, end.from, interface)?.rdma.as_deref()
}

fn nic<'p>(world: &'p World<'_>, node: NodeId, interface: &str) -> Option<&'p NicReport> {
    let observed = world.known.ingest.observations().node(node)?;
    Some(&observed.host.nics.get(interface)?.value)
}

/// Hops whose queue was full lately: the link is not at fault for drops there.
pub(crate) fn congested(world: &World<'_>) -> BTreeSet<Hop> {
    let is_congested = |(hop, interface): &(Hop, &str)| {
        let counted = world.known.trends.lately(hop.from, interface);
        counted.is_some_and(|counted| counted.queue_drops.0 > 0)
    };
    let congested = ends(world).filter(is_congested);
    congested.map(|(hop, _)| hop).collect()
}

/// The histories of corrected bits, damaged frames and lost probes, where there are any, and of link latencies.
pub(super) fn series(world: &World<'_>) -> Vec<Series> {
    let corrected = counted(world, "corrected_bit_share", CounterTrends::corrected);
    let errors = counted(world, "errors", CounterTrends::errors);
    let of_probes = latencies(world).chain(losses(world));
    corrected.chain(errors).chain(of_probes).collect()
}

fn losses(world: &World<'_>) -> impl Iterator<Item = Series> {
    let known = world.known;
    let history = move |(hop, values): (Hop, Vec<f64>)| {
        let far = known.fabric.link(hop.link).far(hop.from).node;
        Series {
            of: "loss".to_owned(),
            at: [far, hop.from].map(|node| name(known, node)).to_vec(),
            link: parallel(known, hop.link),
            every_s: Losses::SAMPLE_INTERVAL.as_secs_f64(),
            values,
        }
    };
    known.losses.histories().map(history)
}

/// Latencies; those before a full queue are left out.
fn latencies(world: &World<'_>) -> impl Iterator<Item = Series> {
    let (known, congested) = (world.known, congested(world));
    let far = |hop: &Hop| known.fabric.link(hop.link).far(hop.from).node;
    let is_free = move |place: &PathSegment| {
        congested.iter().all(|hop| match place {
            PathSegment::Hop(own) => own != hop,
            PathSegment::Host(host) => hop.from != *host && far(hop) != *host,
        })
    };
    let histories = known
        .latencies
        .histories()
        .filter(move |(place, _)| is_free(place));
    histories.map(move |(place, values)| {
        let (at, link) = match place {
            PathSegment::Host(host) => (vec![host], None),
            // The receiving end comes first.
            PathSegment::Hop(hop) => (vec![far(&hop), hop.from], parallel(known, hop.link)),
        };
        Series {
            of: "latency_us".to_owned(),
            at: at.into_iter().map(|node| name(known, node)).collect(),
            link,
            every_s: Latencies::SAMPLE_INTERVAL.as_secs_f64(),
            values,
        }
    })
}

/// The received counters of each end of a link.
fn counted(
    world: &World<'_>,
    of: &'static str,
    values: fn(&CounterTrends, NodeId, &str) -> Vec<f64>,
) -> impl Iterator<Item = Series> {
    let known = world.known;
    let history = move |(hop, interface): (Hop, &str)| {
        let values = values(known.trends, hop.from, interface);
        let far = known.fabric.link(hop.link).far(hop.from).node;
        let at = [hop.from, far].map(|node| name(known, node));
        (!values.is_empty()).then(|| Series {
            of: of.to_owned(),
            at: at.to_vec(),
            link: parallel(known, hop.link),
            every_s: CounterTrends::HALF_WINDOW.as_secs_f64(),
            values,
        })
    };
    ends(world).filter_map(history)
}

/// The NIC with the worst PCIe link, and settings that distinguish hosts.
pub(super) fn of_nics(world: &World<'_>, host: NodeId) -> HostFacts {
    let known = world.known;
    let links = known.fabric.links_of(host).iter();
    let nics = links.filter_map(|&link| {
        let end = world.wiring.end(Hop { from: host, link })?;
        nic(world, host, &end.interface)
    });
    let nics: Vec<_> = nics.collect();
    let mut buses = nics.iter().filter_map(|nic| nic.pcie);
    let degraded = buses.clone().find(Pcie::is_degraded);
    let bus = degraded.or_else(|| buses.next());
    let gts = |mt: u32| f64::from(mt) / 1e3;
    let mut settings = settings(&nics);
    settings.extend(at_fibres(world, host));
    HostFacts {
        pcie_gts: bus.map(|bus| gts(bus.now.mt_per_s)),
        pcie_most_gts: bus.map(|bus| gts(bus.most.mt_per_s)),
        pcie_lanes: bus.map(|bus| u32::from(bus.now.lanes)),
        pcie_most_lanes: bus.map(|bus| u32::from(bus.most.lanes)),
        settings,
        ..HostFacts::default()
    }
}

/// Settings that must be the same at all fibres.
fn at_fibres(world: &World<'_>, host: NodeId) -> Option<(String, String)> {
    let borne = fibre_macs::borne(world, host);
    let borne: Vec<_> = borne.iter().map(Mac::to_string).collect();
    let setting = "hardware address at fibres".to_owned();
    (!borne.is_empty()).then(|| (setting, borne.join(", ")))
}

fn settings(nics: &[&NicReport]) -> BTreeMap<String, String> {
    let mtus = nics.iter().filter_map(|nic| nic.mtu_bytes);
    let mut mtus: Vec<_> = mtus.map(|mtu| mtu.to_string()).collect();
    mtus.sort();
    let mtu = (!mtus.is_empty()).then(|| ("MTU".to_owned(), mtus.join(", ")));
    mtu.into_iter().collect()
}
