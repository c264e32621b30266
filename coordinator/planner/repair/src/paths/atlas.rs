//! All shortest paths of a fabric. Hosts at the same switches share them.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use reweave_common::fabric::{Fabric, Role};
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::routes::hops_to;
use reweave_common::snapshot::{FlowState, Hop};

use super::ecmp::{Ecmp, Label};
use super::remembered::Remembered;

/// Maximum number of paths, as in a fat tree of switches with 32 ports. Of more, the first are used.
const MAX_PATHS: usize = 256;
/// Maximum number of hops of a valid path.
const MAX_HOPS: usize = 64;

/// For nodes with fewer links, a search is as fast as a cache.
const MIN_CACHED_LINKS: usize = 8;

/// Where a flow ends: at a node, over the link of the NIC to which it is addressed if that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Destination {
    pub node: NodeId,
    pub nic: Option<LinkId>,
}

impl From<NodeId> for Destination {
    fn from(node: NodeId) -> Self {
        Self { node, nic: None }
    }
}

impl From<&FlowState> for Destination {
    fn from(state: &FlowState) -> Self {
        Self {
            node: state.to,
            nic: state.nic,
        }
    }
}

/// Index of a hop: twice that of its link, plus one for the direction from the second end.
pub type HopIndex = usize;

/// Finds paths, and caches distances to requested destinations.
pub struct Atlas<'f> {
    pub fabric: &'f Fabric,
    /// Links that are down.
    down: BTreeSet<LinkId>,
    /// By goal.
    distances: BTreeMap<NodeId, Vec<Option<u32>>>,
    /// Links that lead closer, by switch and door.
    closer: Remembered,
    /// First node with the same switches, by node.
    twins: OnceCell<Vec<NodeId>>,
}

impl<'f> Atlas<'f> {
    pub fn new(fabric: &'f Fabric) -> Self {
        Self::without(fabric, BTreeSet::new())
    }

    /// Returns an atlas with some links down; switches choose among the others.
    pub fn without(fabric: &'f Fabric, down: BTreeSet<LinkId>) -> Self {
        Self {
            fabric,
            down,
            distances: BTreeMap::new(),
            closer: Remembered::default(),
            twins: OnceCell::new(),
        }
    }

    pub fn hops(&self) -> usize {
        2 * self.fabric.links().len()
    }

    pub fn index(&self, hop: Hop) -> HopIndex {
        let second = self.fabric.link(hop.link).a.node != hop.from;
        2 * hop.link.index() + usize::from(second)
    }

    pub fn hop(&self, index: HopIndex) -> Hop {
        let link = LinkId::from_index(index / 2);
        let ports = self.fabric.link(link).ports();
        Hop {
            from: ports[index % 2].node,
            link,
        }
    }

    pub fn far(&self, hop: Hop) -> NodeId {
        self.fabric.link(hop.link).far(hop.from).node
    }

    /// Returns the door of an endpoint: the switch of its only link, or of the NIC that packets are for; else the
    /// endpoint itself.
    pub fn door(&self, to: impl Into<Destination>) -> NodeId {
        let Destination { node, nic } = to.into();
        match (nic, self.fabric.links_of(node)) {
            (Some(link), _) | (None, &[link]) if self.fabric.node(node).role == Role::Host => {
                self.fabric.link(link).far(node).node
            }
            _ => node,
        }
    }

    /// Returns the common goal of endpoints for which forwarding differs only in the last link: those behind the same
    /// door, or with several doors.
    pub fn goal(&self, to: NodeId) -> NodeId {
        match self.door(to) {
            door if door != to => door,
            _ if self.fabric.node(to).role != Role::Host => to,
            _ => self.twins.get_or_init(|| twins(self.fabric))[to.index()],
        }
    }

    /// The links over which `at` may send towards an endpoint, in the order of its ports.
    pub fn choices(&mut self, at: NodeId, to: impl Into<Destination>) -> Vec<LinkId> {
        let to = to.into();
        let door = self.door(to);
        if at == to.node {
            return Vec::new();
        }
        if at == door {
            let mut links: Vec<_> = self.fabric.links_between(at, to.node).collect();
            links.retain(|link| !self.down.contains(link));
            links.retain(|link| to.nic.is_none_or(|nic| nic == *link));
            return links;
        }
        self.closer(at, door).to_vec()
    }

    fn closer(&mut self, at: NodeId, door: NodeId) -> Arc<[LinkId]> {
        if self.fabric.links_of(at).len() < MIN_CACHED_LINKS {
            return self.closest(at, door).into();
        }
        if let Some(known) = self.closer.of([at, door]) {
            return known;
        }
        let closest: Arc<[_]> = self.closest(at, door).into();
        self.closer.insert([at, door], Arc::clone(&closest));
        closest
    }

    fn closest(&mut self, at: NodeId, door: NodeId) -> Vec<LinkId> {
        let (fabric, goal) = (self.fabric, self.goal(door));
        let distances = self.distances.entry(goal);
        let distances = distances.or_insert_with(|| hops_to(fabric, goal));
        // Hosts do not forward, so only this host matters; its twin has another position.
        let hops = |node: NodeId| {
            if node == door {
                return Some(0);
            }
            let forwards = fabric.node(node).role.forwards();
            distances[node.index()].filter(|_| forwards)
        };
        let (mut closest, mut least) = (Vec::new(), u32::MAX);
        for &link in fabric.links_of(at) {
            let Some(beyond) = hops(fabric.link(link).far(at).node) else {
                continue;
            };
            if beyond < least {
                closest.clear();
                least = beyond;
            }
            if beyond == least {
                closest.push(link);
            }
        }
        closest.retain(|link| !self.down.contains(link));
        closest
    }

    /// Returns the path that hashing selects; none without a path.
    pub fn hashed(
        &mut self,
        [from, to]: [NodeId; 2],
        ecmp: &Ecmp,
        label: Label,
    ) -> Option<Vec<Hop>> {
        self.chosen([from, to], |at, links| {
            ecmp.choose(at.index() as u32, label, links)
        })
    }

    /// Returns the path for these choices of a node among this number of links.
    pub fn chosen(
        &mut self,
        [from, to]: [NodeId; 2],
        choose: impl Fn(NodeId, usize) -> usize,
    ) -> Option<Vec<Hop>> {
        let (mut at, mut hops) = (from, Vec::new());
        while at != to && hops.len() < MAX_HOPS {
            let links = self.choices(at, to);
            let &link = links.get(choose(at, links.len()))?;
            hops.push(Hop { from: at, link });
            at = self.fabric.link(link).far(at).node;
        }
        (at == to).then_some(hops)
    }

    /// Returns all shortest paths from a node to a door, in the order of their links.
    pub fn ways(&mut self, from: NodeId, door: NodeId) -> Vec<Vec<Hop>> {
        let mut found = Vec::new();
        self.walk(from, door, &mut Vec::new(), &mut found);
        found
    }

    fn walk(&mut self, at: NodeId, door: NodeId, hops: &mut Vec<Hop>, found: &mut Vec<Vec<Hop>>) {
        if at == door {
            return found.push(hops.clone());
        }
        for &link in self.closer(at, door).iter() {
            if found.len() == MAX_PATHS {
                return;
            }
            hops.push(Hop { from: at, link });
            self.walk(self.fabric.link(link).far(at).node, door, hops, found);
            hops.pop();
        }
    }

    /// Returns the distance of each node from the nearest host: hosts are tier 0, leaves tier 1.
    pub fn tiers(&self) -> Vec<u32> {
        let fabric = self.fabric;
        let mut tiers = vec![u32::MAX; fabric.nodes().len()];
        let mut reached: Vec<_> = fabric.endpoints().collect();
        for tier in 0.. {
            // Many lead to the same switch, which is gone on from once.
            reached.retain(|node| {
                let known = &mut tiers[node.index()];
                let is_new = *known == u32::MAX;
                *known = tier.min(*known);
                is_new
            });
            if reached.is_empty() {
                break;
            }
            let next = reached.iter().flat_map(|&node| {
                let links = fabric.links_of(node).iter();
                links.map(move |&link| fabric.link(link).far(node).node)
            });
            reached = next.collect();
        }
        tiers
    }
}

/// Returns the first host with links to the same nodes, by node.
fn twins(fabric: &Fabric) -> Vec<NodeId> {
    let mut firsts = BTreeMap::new();
    let first = |node: NodeId| *firsts.entry(neighbours(fabric, node)).or_insert(node);
    fabric.nodes().map(|(node, _)| node).map(first).collect()
}

/// The neighbours of a node, each once, in rising order.
pub(crate) fn neighbours(fabric: &Fabric, node: NodeId) -> Vec<NodeId> {
    let links = fabric.links_of(node).iter();
    let mut beside: Vec<_> = links.map(|&it| fabric.link(it).far(node).node).collect();
    beside.sort_unstable();
    beside.dedup();
    beside
}
