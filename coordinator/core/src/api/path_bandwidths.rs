//! Bandwidth between hosts by packet trains, and the spare capacity of links.

use std::cmp::Reverse;
use std::net::Ipv4Addr;

use reweave_common::bandwidth::{Bandwidth, BandwidthReading};
use reweave_common::ids::NodeId;
use reweave_common::observations::TimedReading;
use reweave_common::operator::PathBandwidth;
use reweave_common::snapshot::Hop;
use reweave_common::units::Rate;

use crate::log::millis::millis;
use crate::model::world::World;

/// An answer has to fit into one message, however large the cluster is.
const MAX_PATHS: usize = 256;

/// Measured paths first, and of those the slowest.
pub(super) fn bandwidths(world: &World<'_>) -> Vec<PathBandwidth> {
    let known = world.known;
    let nodes = known.ingest.observations().nodes();
    let all = nodes.flat_map(|(from, node)| {
        let paths = node.bandwidths.values();
        paths.filter_map(move |it| path(world, from, it))
    });
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|it| rank(&it.bandwidth));
    all.truncate(MAX_PATHS);
    all
}

fn path(
    world: &World<'_>,
    from: NodeId,
    aged: &TimedReading<BandwidthReading>,
) -> Option<PathBandwidth> {
    let known = world.known;
    let BandwidthReading {
        flow,
        bandwidth,
        routers,
    } = &aged.value;
    let name = |router: &Option<Ipv4Addr>| match router {
        Some(address) => node_name(world, *address),
        None => "?".to_owned(),
    };
    let to = known.ingest.owner(*flow.destination.ip())?;
    Some(PathBandwidth {
        from: known.fabric.name(from).to_owned(),
        to: known.fabric.name(to).to_owned(),
        flow: *flow,
        bandwidth: *bandwidth,
        over: routers.as_ref().map(|it| it.iter().map(name).collect()),
        age_ms: millis(aged.age(known.now)),
    })
}

/// A router outside of the fabric has only an address.
fn node_name(world: &World<'_>, address: Ipv4Addr) -> String {
    match world.wiring.node(address) {
        Some(node) => world.known.fabric.name(node).to_owned(),
        None => address.to_string(),
    }
}

fn rank(bandwidth: &Bandwidth) -> (u8, Option<Rate>, Reverse<u32>) {
    match bandwidth {
        Bandwidth::Known { rate, trains, .. } => (0, Some(*rate), Reverse(*trains)),
        Bandwidth::AtLeast { rate, trains } => (1, Some(*rate), Reverse(*trains)),
        Bandwidth::Unknown { trains, .. } => (2, None, Reverse(*trains)),
    }
}

/// The free bandwidth of the interface at this end of the link, at most the link's rate in the fabric.
pub(super) fn spare(world: &World<'_>, hop: Hop, rate: Rate) -> Option<Rate> {
    let known = world.known;
    let end = world.wiring.end(hop)?;
    let node = known.ingest.observations().node(hop.from)?;
    let spare = node.host.spare.get(&end.interface)?;
    let capacity = known.fabric.link(hop.link).rate.bits_per_s();
    let left = Rate::from_bits_per_s(capacity.saturating_sub(rate.bits_per_s()));
    Some(spare.value.send.min(left))
}
