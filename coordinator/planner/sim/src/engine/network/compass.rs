//! Distances to a node, and links that lead closer.
//!
//! All paths to a host with one link lead through its switch, so hosts of one switch share the distances. No distances
//! are stored for nodes that do not forward.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use reweave_common::ids::NodeId;

use super::{Edge, Network};

/// Distances from all nodes to one.
#[derive(Debug, Clone)]
pub struct Towards {
    to: u32,
    /// The last node that all paths to it cross; itself if it has several links.
    door: u32,
    /// Distances to the door, by index among the forwarding nodes.
    hops: Arc<[u32]>,
}

impl Towards {
    pub(super) fn to(&self) -> usize {
        self.to as usize
    }
}

const UNREACHABLE: u32 = u32::MAX;

/// Remembers how far it is to what was asked for.
#[derive(Debug, Clone, Default)]
pub struct Compass {
    by_door: BTreeMap<u32, Arc<[u32]>>,
}

impl Compass {
    pub fn towards(&mut self, network: &Network, to: NodeId) -> Towards {
        let door = network.door(to);
        let hops = self.by_door.entry(door);
        Towards {
            to: to.index() as u32,
            door,
            hops: Arc::clone(hops.or_insert_with(|| network.hops_to(door))),
        }
    }
}

impl Network {
    pub fn towards(&self, to: NodeId) -> Towards {
        Compass::default().towards(self, to)
    }

    /// Returns the number of links from a node; none without a path.
    pub fn hops(&self, from: NodeId, towards: &Towards) -> Option<u32> {
        let hops = self.distance(from.index(), towards);
        (hops != UNREACHABLE).then_some(hops)
    }

    fn door(&self, to: NodeId) -> u32 {
        match self.edges(to.index()) {
            [only] if self.places[only.to as usize].is_some() => only.to,
            _ => to.index() as u32,
        }
    }

    /// Breadth-first from a node, over what forwards.
    fn hops_to(&self, door: u32) -> Arc<[u32]> {
        let forwarding = self.places.iter().flatten().count();
        let mut hops = vec![UNREACHABLE; forwarding];
        if let Some(place) = self.places[door as usize] {
            hops[place as usize] = 0;
        }
        let mut line = VecDeque::from([(door, 0)]);
        while let Some((at, far)) = line.pop_front() {
            for edge in self.edges(at as usize) {
                let place = self.places[edge.to as usize];
                if let Some(known) = place.map(|place| &mut hops[place as usize])
                    && *known == UNREACHABLE
                {
                    *known = far + 1;
                    line.push_back((edge.to, far + 1));
                }
            }
        }
        hops.into()
    }

    fn distance(&self, at: usize, towards: &Towards) -> u32 {
        if self.places[at].is_some() || at == towards.to() {
            return self.of_forwarding(at, towards);
        }
        let next = self.edges(at).iter().map(|edge| edge.to as usize);
        let passing = next.filter(|&next| next == towards.to() || self.places[next].is_some());
        let nearest = passing.map(|next| self.of_forwarding(next, towards)).min();
        nearest.map_or(UNREACHABLE, |hops| hops.saturating_add(1))
    }

    /// Returns the distance from a forwarding node, or from the destination itself.
    fn of_forwarding(&self, at: usize, towards: &Towards) -> u32 {
        if at == towards.to() {
            return 0;
        }
        let behind_door = u32::from(towards.door != towards.to);
        let place = self.places[at].map_or(UNREACHABLE, |place| towards.hops[place as usize]);
        place.saturating_add(behind_door)
    }

    /// The edges of a node that lead closer to the destination.
    pub(super) fn closer<'n>(
        &'n self,
        at: usize,
        towards: &'n Towards,
    ) -> impl Iterator<Item = Edge> + Clone + 'n {
        let last = (at as u32 == towards.door)
            .then(|| self.last(towards))
            .flatten();
        let edges = match last {
            Some(_) => &[],
            None => self.edges(at),
        };
        let wanted = self.distance(at, towards).wrapping_sub(1);
        let leads = move |edge: &Edge| {
            let next = edge.to as usize;
            let may_pass = next == towards.to() || self.places[next].is_some();
            may_pass && self.of_forwarding(next, towards) == wanted
        };
        edges.iter().copied().filter(leads).chain(last)
    }

    /// Returns the edge from the door to the destination, without a search through a switch of many hosts.
    fn last(&self, towards: &Towards) -> Option<Edge> {
        let back = self.edges(towards.to()).first()?;
        (towards.door != towards.to).then_some(Edge {
            to: towards.to,
            link: back.link ^ 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use reweave_common::fabric::{Fabric, Role};

    use super::*;
    use crate::engine::network::Costs;

    /// Computes distances by a search from the destination through forwarding nodes.
    fn by_looking(fabric: &Fabric, to: NodeId) -> Vec<Option<u32>> {
        let mut hops = vec![None; fabric.nodes().len()];
        hops[to.index()] = Some(0);
        let mut line = VecDeque::from([to]);
        while let Some(at) = line.pop_front() {
            if at != to && !fabric.node(at).role.forwards() {
                continue;
            }
            for &link in fabric.links_of(at) {
                let next = fabric.link(link).far(at).node;
                if hops[next.index()].is_none() {
                    hops[next.index()] = hops[at.index()].map(|hops| hops + 1);
                    line.push_back(next);
                }
            }
        }
        hops
    }

    const FABRICS: [&str; 4] = [
        "kind = \"leaf-spine\"\nleaves = 3\nspines = 2\nhosts_per_leaf = 2\nhost_gbps = 1\n\
         uplink_gbps = 1",
        "kind = \"direct\"\nhosts = 9\nlink_gbps = 10\nstrides = [1, 3]",
        "kind = \"ideal\"\nhosts = 4\nnic_gbps = 1",
        // b does not forward and is in between; d is attached to it alone, e by two cables to a switch.
        r#"
            kind = "graph"
            node = [{ name = "a", role = "relay" }, { name = "b", role = "host" },
                    { name = "s", role = "switch" }, { name = "d", role = "host" },
                    { name = "e", role = "host" }, { name = "alone", role = "host" }]
            link = [{ a = "a", b = "b", gbps = 1 }, { a = "b", b = "s", gbps = 1 },
                    { a = "b", b = "d", gbps = 1 }, { a = "s", b = "e", gbps = 1, count = 2 },
                    { a = "s", b = "a", gbps = 1 }]
        "#,
    ];

    #[test]
    fn distances_match_plain_search() {
        for text in FABRICS {
            let fabric = Fabric::parse("fabric.toml", text).unwrap();
            let network = Network::of(&fabric, Costs::default());
            let mut compass = Compass::default();
            for (to, _) in fabric.nodes() {
                let (towards, plain) = (compass.towards(&network, to), by_looking(&fabric, to));
                for (from, _) in fabric.nodes() {
                    let hops = network.hops(from, &towards);
                    assert_eq!(hops, plain[from.index()], "{text}: {from:?} to {to:?}");
                }
            }
        }
    }

    #[test]
    fn hosts_of_switch_share_distances() {
        let fabric = Fabric::parse("fabric.toml", FABRICS[0]).unwrap();
        let network = Network::of(&fabric, Costs::default());
        let mut compass = Compass::default();
        let hosts = fabric.nodes().filter(|(_, node)| node.role == Role::Host);
        hosts.for_each(|(host, _)| drop(compass.towards(&network, host)));
        assert_eq!(compass.by_door.len(), 3);
    }
}
