//! What interfaces and NICs say.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::hardware::{Mac, Nic, Pcie};
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::snapshot::Hop;
use reweave_common::units::Rate;
use reweave_planner::causes::{HostFacts, PortFacts, Series};

use super::name;
use crate::fibres;
use crate::latencies::{Latencies, Where};
use crate::losses::Losses;
use crate::model::{Known, Picture};
use crate::trends::Trends;

/// Every end of a link of which it is known which interface it is.
fn ends<'p>(picture: &'p Picture<'_>) -> impl Iterator<Item = (Hop, &'p str)> {
    let links = picture.fabric().links();
    let hops = links.flat_map(|(link, between)| {
        between.ports().map(|port| Hop {
            from: port.node,
            link,
        })
    });
    hops.filter_map(|hop| Some((hop, &picture.wiring.end(hop)?.interface[..])))
}

pub(super) fn ports(picture: &Picture<'_>) -> Vec<PortFacts> {
    ends(picture)
        .map(|(hop, interface)| port(picture, hop, interface))
        .collect()
}

fn port(picture: &Picture<'_>, hop: Hop, interface: &str) -> PortFacts {
    let known = picture.known;
    let counted = known.trends.lately(hop.from, interface).unwrap_or_default();
    let nic = nic(picture, hop.from, interface);
    let load = picture.load(hop);
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
        speed_gbps: speed(picture, hop).map(Rate::gbps),
        fec: nic.and_then(|nic| nic.fec).map(|fec| fec.to_string()),
    }
}

/// Its name, where those of its ends do not say which link it is.
fn parallel(known: Known<'_>, link: LinkId) -> Option<String> {
    let is_parallel = known.fabric.is_parallel(link);
    is_parallel.then(|| known.fabric.link_name(link))
}

/// What this end of a link says that it sends at.
pub(crate) fn speed(picture: &Picture<'_>, end: Hop) -> Option<Rate> {
    let interface = &picture.wiring.end(end)?.interface;
    nic(picture, end.from, interface)?.speed
}

/// The RDMA device whose packets go over this end of a link.
pub(crate) fn rdma_device<'p>(picture: &'p Picture<'_>, end: Hop) -> Option<&'p str> {
    let of_fibre = || picture.fabric().fibre_of(end.from, end.link);
    let interface = match picture.wiring.end(end) {
        Some(end) => &end.interface,
        None => &of_fibre()?.interface,
    };
    nic(picture, end.from, interface)?.rdma.as_deref()
}

fn nic<'p>(picture: &'p Picture<'_>, node: NodeId, interface: &str) -> Option<&'p Nic> {
    let observed = picture.known.ingest.observations().node(node)?;
    Some(&observed.host.nics.get(interface)?.value)
}

/// Hops with a queue before them that was full lately: what is lost there is no fault of the link.
pub(crate) fn congested(picture: &Picture<'_>) -> BTreeSet<Hop> {
    let is_congested = |(hop, interface): &(Hop, &str)| {
        let counted = picture.known.trends.lately(hop.from, interface);
        counted.is_some_and(|counted| counted.queue_drops.0 > 0)
    };
    let congested = ends(picture).filter(is_congested);
    congested.map(|(hop, _)| hop).collect()
}

/// How corrected bits, broken frames and lost probes have gone, where there are any, and how quickly links are
/// crossed.
pub(super) fn series(picture: &Picture<'_>) -> Vec<Series> {
    let corrected = counted(picture, "corrected_bit_share", Trends::corrected);
    let errors = counted(picture, "errors", Trends::errors);
    let of_probes = latencies(picture).chain(losses(picture));
    corrected.chain(errors).chain(of_probes).collect()
}

fn losses(picture: &Picture<'_>) -> impl Iterator<Item = Series> {
    let known = picture.known;
    let course = move |(hop, values): (Hop, Vec<f64>)| {
        let far = known.fabric.link(hop.link).far(hop.from).node;
        Series {
            of: "loss".to_owned(),
            at: [far, hop.from].map(|node| name(known, node)).to_vec(),
            link: parallel(known, hop.link),
            every_s: Losses::SAMPLE_INTERVAL.as_secs_f64(),
            values,
        }
    };
    known.losses.courses().map(course)
}

/// Before a queue that was full, all waited.
fn latencies(picture: &Picture<'_>) -> impl Iterator<Item = Series> {
    let (known, congested) = (picture.known, congested(picture));
    let far = |hop: &Hop| known.fabric.link(hop.link).far(hop.from).node;
    let is_free = move |place: &Where| {
        congested.iter().all(|hop| match place {
            Where::Hop(own) => own != hop,
            Where::Host(host) => hop.from != *host && far(hop) != *host,
        })
    };
    let courses = known
        .latencies
        .courses()
        .filter(move |(place, _)| is_free(place));
    courses.map(move |(place, values)| {
        let (at, link) = match place {
            Where::Host(host) => (vec![host], None),
            // Whoever hears of it first.
            Where::Hop(hop) => (vec![far(&hop), hop.from], parallel(known, hop.link)),
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

/// What each end of a link counts of what comes in.
fn counted(
    picture: &Picture<'_>,
    of: &'static str,
    values: fn(&Trends, NodeId, &str) -> Vec<f64>,
) -> impl Iterator<Item = Series> {
    let known = picture.known;
    let course = move |(hop, interface): (Hop, &str)| {
        let values = values(known.trends, hop.from, interface);
        let far = known.fabric.link(hop.link).far(hop.from).node;
        let at = [hop.from, far].map(|node| name(known, node));
        (!values.is_empty()).then(|| Series {
            of: of.to_owned(),
            at: at.to_vec(),
            link: parallel(known, hop.link),
            every_s: Trends::HALF_WINDOW.as_secs_f64(),
            values,
        })
    };
    ends(picture).filter_map(course)
}

/// The bus of the NIC on the fabric that is worst off, and what hosts are told apart by.
pub(super) fn of_nics(picture: &Picture<'_>, host: NodeId) -> HostFacts {
    let known = picture.known;
    let links = known.fabric.links_of(host).iter();
    let nics = links.filter_map(|&link| {
        let end = picture.wiring.end(Hop { from: host, link })?;
        nic(picture, host, &end.interface)
    });
    let nics: Vec<_> = nics.collect();
    let mut buses = nics.iter().filter_map(|nic| nic.pcie);
    let degraded = buses.clone().find(Pcie::is_degraded);
    let bus = degraded.or_else(|| buses.next());
    let gts = |mt: u32| f64::from(mt) / 1e3;
    let mut settings = settings(&nics);
    settings.extend(at_fibres(picture, host));
    HostFacts {
        pcie_gts: bus.map(|bus| gts(bus.now.mt_per_s)),
        pcie_most_gts: bus.map(|bus| gts(bus.most.mt_per_s)),
        pcie_lanes: bus.map(|bus| u32::from(bus.now.lanes)),
        pcie_most_lanes: bus.map(|bus| u32::from(bus.most.lanes)),
        settings,
        ..HostFacts::default()
    }
}

/// What its fibres have to bear alike everywhere.
fn at_fibres(picture: &Picture<'_>, host: NodeId) -> Option<(String, String)> {
    let borne = fibres::borne(picture, host);
    let borne: Vec<_> = borne.iter().map(Mac::to_string).collect();
    let setting = "hardware address at fibres".to_owned();
    (!borne.is_empty()).then(|| (setting, borne.join(", ")))
}

fn settings(nics: &[&Nic]) -> BTreeMap<String, String> {
    let mtus = nics.iter().filter_map(|nic| nic.mtu_bytes);
    let mut mtus: Vec<_> = mtus.map(|mtu| mtu.to_string()).collect();
    mtus.sort();
    let mtu = (!mtus.is_empty()).then(|| ("MTU".to_owned(), mtus.join(", ")));
    mtu.into_iter().collect()
}
