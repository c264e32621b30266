//! Distances between many nodes. Hosts with the same neighbours share one place.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use reweave_common::fabric::Role;
use reweave_common::ids::NodeId;

use crate::paths::Atlas;

/// Index of a node, or of hosts with the same neighbours.
type Place = u32;
const UNREACHABLE: u32 = u32::MAX;

pub(super) struct Distances {
    /// Place of each node.
    places: Vec<Place>,
    forwards: Vec<bool>,
    /// Range of each place in `neighbours`.
    beside: Vec<Range<usize>>,
    neighbours: Vec<Place>,
    /// Cached distances, by place and place.
    hops: Vec<Vec<u32>>,
}

impl Distances {
    pub(super) fn new(atlas: &Atlas<'_>) -> Self {
        let fabric = atlas.fabric;
        let (mut hosts, mut places, mut members) = (BTreeMap::new(), Vec::new(), Vec::new());
        for (node, it) in fabric.nodes() {
            let new = members.len() as Place;
            let place = match it.role {
                Role::Host => *hosts.entry(atlas.goal(node)).or_insert(new),
                _ => new,
            };
            if place == new {
                members.push(node);
            }
            places.push(place);
        }
        let (mut beside, mut neighbours) = (Vec::new(), Vec::new());
        for &node in &members {
            let first = neighbours.len();
            neighbours.extend(places_beside(atlas, &places, node));
            beside.push(first..neighbours.len());
        }
        let forwards = members.iter().map(|&it| fabric.node(it).role.forwards());
        Self {
            forwards: forwards.collect(),
            hops: vec![Vec::new(); members.len()],
            places,
            beside,
            neighbours,
        }
    }

    /// Returns the number of hops between a node and a forwarding node; none without a path.
    pub(super) fn between(&mut self, node: NodeId, forwarding: NodeId) -> Option<u32> {
        let place = self.places[node.index()];
        let hops = self.from(forwarding)[place as usize];
        (hops != UNREACHABLE).then_some(hops)
    }

    /// Returns the distance of the furthest reachable node.
    pub(super) fn furthest(&mut self, node: NodeId) -> u32 {
        let hops = self.from(node).iter().filter(|hops| **hops != UNREACHABLE);
        hops.max().copied().unwrap_or(0)
    }

    fn from(&mut self, node: NodeId) -> &[u32] {
        let place = self.places[node.index()];
        if self.hops[place as usize].is_empty() {
            self.hops[place as usize] = self.around(place);
        }
        &self.hops[place as usize]
    }

    fn around(&self, place: Place) -> Vec<u32> {
        let mut hops = vec![UNREACHABLE; self.beside.len()];
        hops[place as usize] = 0;
        let mut queue = VecDeque::from([place]);
        while let Some(at) = queue.pop_front() {
            let next = hops[at as usize] + 1;
            for &beside in &self.neighbours[self.beside[at as usize].clone()] {
                if hops[beside as usize] != UNREACHABLE {
                    continue;
                }
                hops[beside as usize] = next;
                // Hosts pass nothing on.
                if self.forwards[beside as usize] {
                    queue.push_back(beside);
                }
            }
        }
        hops
    }
}

/// Each once.
fn places_beside(atlas: &Atlas<'_>, places: &[Place], node: NodeId) -> Vec<Place> {
    let links = atlas.fabric.links_of(node).iter();
    let beside = links.map(|&link| places[atlas.fabric.link(link).far(node).node.index()]);
    let mut beside: Vec<_> = beside.collect();
    beside.sort_unstable();
    beside.dedup();
    beside
}
