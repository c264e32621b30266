//! The fewest of flows of probes that were traced, as where the switches' hash is not known.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::fabric::Fabric;
use reweave_common::probing::PROBE_PORT;

use super::cover::Cover;
use super::distances::Distances;
use super::tally::least;
use super::{Candidate, ProbeFlow, choose};
use crate::paths::ecmp::Fields;
use crate::paths::listed::Listed;
use crate::paths::{Atlas, HopIndex, Learned};

/// Reason why a probe cannot be chosen: a link on its path is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Untraced {
    Way,
    WayOfAnswer,
}

/// There and back.
type RoundTripHops = [Vec<HopIndex>; 2];

/// Returns the chosen probe flows among those with known paths in both directions: at least one per pair of hosts, and
/// enough to cross each direction of each link as often as wanted, or all of them. Also returns the probes that cannot
/// be chosen because their paths are unknown.
pub fn cover_by(
    fabric: &Fabric,
    traced: &[Listed],
    times: u32,
) -> (Cover, BTreeMap<ProbeFlow, Untraced>) {
    let atlas = Atlas::new(fabric);
    let (known, untraced) = split_by_trace(&atlas, traced);
    let pairs: BTreeSet<_> = known.keys().map(|flow| [flow.from, flow.to]).collect();
    let places: BTreeMap<_, _> = pairs.into_iter().zip(0..).collect();
    let candidates = known.iter().map(|(flow, ways)| Candidate {
        pair: places[&[flow.from, flow.to]],
        ways: ways.clone(),
    });
    let candidates: Vec<_> = candidates.collect();
    let chosen = choose(&candidates, atlas.hops(), times);
    let ways = chosen.iter().flat_map(|&place| &candidates[place].ways);
    let seldom = seldom(&atlas, ways.flatten(), times);
    let flows: Vec<_> = known.into_keys().collect();
    let cover = Cover {
        flows: chosen.into_iter().map(|place| flows[place]).collect(),
        least: least(&atlas, &mut Distances::new(&atlas), times).max(places.len()),
        uncovered: seldom.into_iter().map(|hop| atlas.hop(hop)).collect(),
    };
    (cover, untraced)
}

/// Probes whose answers were traced, too; and the others.
fn split_by_trace(
    atlas: &Atlas<'_>,
    traced: &[Listed],
) -> (
    BTreeMap<ProbeFlow, RoundTripHops>,
    BTreeMap<ProbeFlow, Untraced>,
) {
    let learned = Learned::of(traced);
    let way = |fields: Fields| -> Option<Vec<HopIndex>> {
        let hops = learned.way(&fields)?.iter();
        Some(hops.map(|&hop| atlas.index(hop)).collect())
    };
    let probes = traced.iter().filter(|it| is_probe(&it.fields));
    let (mut known, mut untraced) = (BTreeMap::new(), BTreeMap::new());
    for (flow, fields) in probes.map(|it| (flow(it), it.fields)) {
        match (way(fields), way(answer(&fields))) {
            (Some(there), Some(back)) => drop(known.insert(flow, [there, back])),
            (None, _) => drop(untraced.insert(flow, Untraced::Way)),
            (Some(_), None) => drop(untraced.insert(flow, Untraced::WayOfAnswer)),
        }
    }
    (known, untraced)
}

fn flow(probe: &Listed) -> ProbeFlow {
    let [from, to] = probe.ends;
    ProbeFlow {
        from,
        to,
        source_port: probe.fields.source_port,
    }
}

/// Returns the hops with too few crossings.
fn seldom<'w>(
    atlas: &Atlas<'_>,
    crossed: impl Iterator<Item = &'w HopIndex>,
    times: u32,
) -> Vec<HopIndex> {
    let mut missing = vec![times; atlas.hops()];
    crossed.for_each(|&hop| missing[hop] = missing[hop].saturating_sub(1));
    let hops = 0..atlas.hops();
    hops.filter(|&hop| missing[hop] > 0).collect()
}

fn is_probe(fields: &Fields) -> bool {
    fields.destination_port == PROBE_PORT
}

fn answer(fields: &Fields) -> Fields {
    Fields {
        source: fields.destination,
        destination: fields.source,
        source_port: fields.destination_port,
        destination_port: fields.source_port,
        protocol: fields.protocol,
    }
}
