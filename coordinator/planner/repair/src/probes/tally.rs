//! Number of crossings of each hop, and the missing ones.

use std::collections::BTreeMap;

use reweave_common::fabric::Role;
use reweave_common::ids::NodeId;

use super::distances::Distances;
use crate::paths::{Atlas, HopIndex};

pub(super) struct Tally {
    /// Missing crossings of each hop.
    pub missing: Vec<u32>,
    /// Sender of each hop.
    senders: Vec<NodeId>,
    /// Whether all traffic of one end of the hop crosses it.
    is_only: Vec<bool>,
    /// Layer of each hop.
    layers: Vec<usize>,
    /// Number of uncovered hops per layer.
    open: Vec<usize>,
    /// Number of uncovered own hops per node.
    needs: Vec<u32>,
}

impl Tally {
    pub(super) fn new(atlas: &Atlas<'_>, tiers: &[u32], times: u32) -> Self {
        let hops = 0..atlas.hops();
        let senders: Vec<_> = hops.clone().map(|hop| atlas.hop(hop).from).collect();
        let mut needs = vec![0; tiers.len()];
        senders.iter().for_each(|node| needs[node.index()] += 1);
        let mut known = BTreeMap::new();
        let layers = hops.clone().map(|hop| {
            let count = known.len();
            *known.entry(layer(atlas, tiers, hop)).or_insert(count)
        });
        let layers: Vec<_> = layers.collect();
        let mut open = vec![0; known.len()];
        layers.iter().for_each(|&layer| open[layer] += 1);
        Self {
            missing: vec![times; atlas.hops()],
            is_only: hops.map(|hop| is_only(atlas, hop)).collect(),
            senders,
            layers,
            open,
            needs,
        }
    }

    pub(super) fn cross(&mut self, hops: &[HopIndex]) {
        for &hop in hops {
            if self.missing[hop] == 1 {
                self.open[self.layers[hop]] -= 1;
                self.needs[self.senders[hop].index()] -= 1;
            }
            self.missing[hop] = self.missing[hop].saturating_sub(1);
        }
    }

    /// Returns the number of these hops that are uncovered.
    pub(super) fn gain(&self, hops: &[HopIndex]) -> u32 {
        hops.iter().map(|&hop| self.missing[hop].min(1)).sum()
    }

    /// Returns an upper bound on the gain of other ports between the same ends: hops of a covered layer gain nothing,
    /// and at a host with one cable all flows use it.
    pub(super) fn most_gain(&self, hops: &[HopIndex]) -> u32 {
        let most = hops.iter().map(|&hop| {
            if self.is_only[hop] {
                self.missing[hop].min(1)
            } else {
                self.open[self.layers[hop]].min(1) as u32
            }
        });
        most.sum()
    }

    /// Whether a node's own links are to be crossed still.
    pub(super) fn is_in_need(&self, node: NodeId) -> bool {
        self.needs[node.index()] > 0
    }
}

/// Returns a lower bound on the flows that cross each hop this number of times. A round trip crosses at most two hops
/// of each kind: own hops of hosts, and hops to or from the highest switches, if those are in the middle of all paths.
pub(super) fn least(atlas: &Atlas<'_>, distances: &mut Distances, times: u32) -> usize {
    let (fabric, tiers) = (atlas.fabric, atlas.tiers());
    let reached = tiers.iter().filter(|tier| **tier != u32::MAX);
    let top = reached.max().copied().unwrap_or(0);
    if top == 0 {
        return least_of_relays(atlas, distances, times);
    }
    let is_middle = is_middle(atlas, distances, &tiers, top);
    let mut of_layer: BTreeMap<_, usize> = BTreeMap::new();
    for hop in (0..atlas.hops()).map(|hop| atlas.hop(hop)) {
        let ends = [hop.from, atlas.far(hop)];
        let is_host = ends.map(|node| fabric.node(node).role == Role::Host);
        let is_top = ends.map(|node| is_middle && tiers[node.index()] == top);
        let bounded = [is_host, is_top].into_iter().zip([false, true]);
        for (of, layer) in bounded.filter(|(of, _)| of[0] != of[1]) {
            *of_layer.entry((layer, of)).or_default() += times as usize;
        }
    }
    let least = of_layer.into_values().map(|times| times.div_ceil(2));
    least.max().unwrap_or(0)
}

/// Whether the hop lies in the middle: if no path is longer than up to the top and down again, a path crosses such a
/// hop once.
fn is_middle(atlas: &Atlas<'_>, distances: &mut Distances, tiers: &[u32], top: u32) -> bool {
    let nodes = atlas.fabric.nodes().map(|(node, _)| node);
    let mut highest = nodes.filter(|node| tiers[node.index()] == top);
    let mut reaches_all = |switch| {
        let mut endpoints = atlas.fabric.endpoints();
        endpoints.all(|it| distances.between(it, switch).is_none_or(|hops| hops <= top))
    };
    highest.any(&mut reaches_all)
}

/// Returns a lower bound if all nodes forward: a flow crosses at most twice the greatest distance.
fn least_of_relays(atlas: &Atlas<'_>, distances: &mut Distances, times: u32) -> usize {
    let longest = atlas.fabric.endpoints().map(|it| distances.furthest(it));
    let longest = longest.max().unwrap_or(0).max(1);
    (atlas.hops() * times as usize).div_ceil(2 * longest as usize)
}

/// Returns the tiers of a hop's ends.
pub(super) fn layer(atlas: &Atlas<'_>, tiers: &[u32], hop: HopIndex) -> [u32; 2] {
    let hop = atlas.hop(hop);
    [hop.from, atlas.far(hop)].map(|node| tiers[node.index()])
}

fn is_only(atlas: &Atlas<'_>, hop: HopIndex) -> bool {
    let hop = atlas.hop(hop);
    let mut ends = [hop.from, atlas.far(hop)].into_iter();
    ends.any(|end| atlas.fabric.links_of(end).len() == 1)
}
