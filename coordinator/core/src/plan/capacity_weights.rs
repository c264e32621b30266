//! Weights of equal paths to a host or to a leaf, in proportion to their capacity.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::fabric::Fabric;
use reweave_common::forwarding::NextHop;
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::routes::Routes;
use reweave_common::snapshot::Hop;

use crate::model::evidence::speed;
use crate::model::world::World;

/// The largest weight before weights are reduced: kernels and switches hold small whole numbers.
const MAX_PATH_WEIGHT: f64 = 16.0;

/// The capacity of links, and the capacity from each node on towards the switches of hosts.
pub(crate) struct CapacityWeights<'f> {
    fabric: &'f Fabric,
    gbps: BTreeMap<LinkId, f64>,
    /// Capacity of each node towards each destination switch.
    rooms: BTreeMap<NodeId, BTreeMap<NodeId, f64>>,
}

impl<'f> CapacityWeights<'f> {
    /// The capacities now. A link end that reports less than its rate, such as a bundle without one cable, counts with
    /// what it reports.
    pub(crate) fn new(
        world: &'f World<'_>,
        routes: &Routes,
        destinations: &BTreeSet<NodeId>,
    ) -> Self {
        let fabric = world.fabric();
        let gbps = fabric.links().map(|(link, between)| {
            let ends = between.ports().map(|port| Hop {
                from: port.node,
                link,
            });
            let reports = ends.into_iter().filter_map(|end| speed(world, end));
            let gbps = reports
                .map(reweave_common::units::Rate::gbps)
                .fold(between.rate.gbps(), f64::min);
            (link, gbps)
        });
        let mut worths = Self {
            fabric,
            gbps: gbps.collect(),
            rooms: BTreeMap::new(),
        };
        for &to in destinations {
            let door = worths.door(to);
            if !worths.rooms.contains_key(&door) {
                worths.note_rooms(door, to, routes);
            }
        }
        worths
    }

    /// The switch of a host with a single switch, otherwise the destination itself. All paths end with the host's own
    /// links, so capacity behind the switch does not matter.
    fn door(&self, to: NodeId) -> NodeId {
        match self.fabric.links_of(to) {
            [only] if self.fabric.node(to).role.is_endpoint() => {
                self.fabric.link(*only).far(to).node
            }
            _ => to,
        }
    }

    /// Computes capacities outwards from the destination switch: each node is limited by those behind it.
    fn note_rooms(&mut self, door: NodeId, to: NodeId, routes: &Routes) {
        let nodes = self.fabric.nodes().map(|(node, _)| node);
        let mut nodes: Vec<_> = nodes
            .filter_map(|node| Some((routes.hops(node, to)?, node)))
            .collect();
        nodes.sort_unstable();
        self.rooms.insert(door, BTreeMap::new());
        for (_, node) in nodes {
            let links = routes.next_hops(node, to);
            let worths = links
                .iter()
                .map(|&link| self.worth(node, door, links, link));
            let room = if node == door || links.is_empty() {
                f64::INFINITY
            } else {
                worths.sum()
            };
            self.rooms.entry(door).or_default().insert(node, room);
        }
    }

    /// Equal capacities get equal weights.
    pub(crate) fn weighed(&self, at: NodeId, to: NodeId, links: &[LinkId]) -> Vec<NextHop> {
        let door = self.door(to);
        let worths = links.iter().map(|&link| self.worth(at, door, links, link));
        let weights = shortened(&worths.collect::<Vec<_>>());
        let hops = links.iter().zip(weights);
        hops.map(|(&link, weight)| NextHop { link, weight })
            .collect()
    }

    /// The capacity of a link: its own rate, at most its share of the capacity behind it.
    fn worth(&self, at: NodeId, door: NodeId, links: &[LinkId], link: LinkId) -> f64 {
        let far = |link: LinkId| self.fabric.link(link).far(at).node;
        let room = self
            .rooms
            .get(&door)
            .and_then(|rooms| rooms.get(&far(link)));
        let beside = links.iter().filter(|it| far(**it) == far(link));
        let beside: f64 = beside.map(|it| self.gbps[it]).sum();
        let room = room.copied().unwrap_or(f64::INFINITY);
        self.gbps[&link].min(room * self.gbps[&link] / beside)
    }
}

/// The smallest positive whole numbers in nearly these proportions.
fn shortened(worths: &[f64]) -> Vec<u32> {
    let best = worths.iter().copied().fold(0.0, f64::max);
    let weight = |worth: &f64| ((MAX_PATH_WEIGHT * worth / best).round() as u32).max(1);
    let weights: Vec<_> = worths.iter().map(weight).collect();
    let divisor = weights.iter().copied().fold(0, divisor);
    weights.iter().map(|weight| weight / divisor).collect()
}

fn divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_weights_are_small_and_nonzero() {
        assert_eq!(shortened(&[]), Vec::<u32>::new());
        assert_eq!(shortened(&[0.3, 0.3]), [1, 1]);
        assert_eq!(shortened(&[100.0, 50.0, 100.0]), [2, 1, 2]);
        assert_eq!(shortened(&[400.0, 300.0]), [4, 3]);
        assert_eq!(shortened(&[400.0, 1.0]), [16, 1]);
    }
}
