//! Partial paths: traces that ended before their destination.

use reweave_common::flow::FlowKey;
use reweave_common::ids::NodeId;
use reweave_repair::causes::EvidencePath;

use super::{end, name, named};
use crate::model::world::World;

/// Stands for an unknown hop.
const UNKNOWN_HOP: &str = "*";

/// A probe's paths there and back, as far as they are known. None if no trace ended early, or if the receiver is not
/// connected.
pub(super) fn ways(world: &World<'_>, from: NodeId, flow: &FlowKey) -> Option<[EvidencePath; 2]> {
    let known = world.known;
    let to = known.ingest.owner(*flow.destination.ip())?;
    let (there, back) = (
        Seen::of(world, [from, to], flow),
        Seen::of(world, [to, from], &flow.reversed()),
    );
    let is_out_of_sight = [&there, &back].iter().any(|seen| seen.is_cut_short);
    (is_out_of_sight && known.is_fresh(to)).then(|| [there, back].map(|seen| seen.way))
}

struct Seen {
    way: EvidencePath,
    is_cut_short: bool,
}

impl Seen {
    fn of(world: &World<'_>, [from, to]: [NodeId; 2], flow: &FlowKey) -> Self {
        let known = world.known;
        if let Some(way) = known.ways.way(flow) {
            return Self {
                way: named(known, way),
                is_cut_short: false,
            };
        }
        let beginning = world.beginning(from, flow);
        let is_cut_short = beginning.is_some();
        let seen = beginning.unwrap_or_default();
        let at = name(known, end(known, &seen).unwrap_or(from));
        let out_of_sight = EvidencePath {
            nodes: vec![at, UNKNOWN_HOP.to_owned(), name(known, to)],
            links: vec![],
        };
        Self {
            way: if seen.is_empty() {
                out_of_sight
            } else {
                named(known, &seen).and_on(out_of_sight)
            },
            is_cut_short,
        }
    }
}
