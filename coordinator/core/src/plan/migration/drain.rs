//! Tables without the links that are to go dark. Nodes whose packets to a destination do not pass these links keep
//! their routes; the others take the shortest path to such a node.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::fabric::Fabric;
use reweave_common::forwarding::{ForwardingTable, NextHop};
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::migration_plan::Tables;

use super::rounds::{hops_of, ways_towards};
use super::{NextLinksByNode, Position};
use crate::log::migration_steps::own_table;

/// The tables without the dark links. Every node that may be instructed has a path to every endpoint, and all others
/// keep their routes. None if that is impossible.
pub(super) fn drained(at: &Position<'_>, dark: &BTreeSet<LinkId>) -> Option<Tables> {
    let is_instructed = |node: &NodeId| at.from.instructed.contains(node);
    let mut tables = at.tables.clone();
    tables.retain(|node, _| !is_instructed(node));
    for to in at.from.fabric.endpoints() {
        let harbour = Harbour::new(at, dark, to);
        let mut disturbed = harbour
            .old
            .keys()
            .filter(|node| !harbour.undisturbed.contains_key(node));
        if !disturbed.all(is_instructed) {
            return None;
        }
        let hops = harbour.hops()?.into_iter();
        for (node, hops) in hops.filter(|(node, _)| is_instructed(node)) {
            let empty = || own_table(node);
            let table: &mut ForwardingTable = tables.entry(node).or_insert_with(empty);
            table.towards.insert(to, hops);
        }
    }
    Some(tables)
}

/// Paths towards one destination that avoid some links.
struct Harbour<'a> {
    at: &'a Position<'a>,
    to: NodeId,
    old: NextLinksByNode,
    /// Open links that do not go dark.
    kept: BTreeSet<LinkId>,
    /// The distances of nodes whose routes stay.
    undisturbed: BTreeMap<NodeId, usize>,
}

impl<'a> Harbour<'a> {
    fn new(at: &'a Position<'a>, dark: &BTreeSet<LinkId>, to: NodeId) -> Self {
        let links = at.open.iter().flatten().copied();
        let mut harbour = Self {
            at,
            to,
            old: ways_towards(at, &at.tables, to),
            kept: links.filter(|link| !dark.contains(link)).collect(),
            undisturbed: BTreeMap::from([(to, 0)]),
        };
        while harbour.settle_more() {}
        harbour
    }

    /// Adds nodes whose next hops are all undisturbed. Returns whether there were any.
    fn settle_more(&mut self) -> bool {
        let unsettled = self
            .old
            .keys()
            .filter(|node| !self.undisturbed.contains_key(node));
        let more: Vec<_> = unsettled
            .filter_map(|&node| Some((node, self.undisturbed_distance(node)?)))
            .collect();
        let any = !more.is_empty();
        self.undisturbed.extend(more);
        any
    }

    /// Returns none unless all paths of a node are kept and lead to undisturbed nodes.
    fn undisturbed_distance(&self, node: NodeId) -> Option<usize> {
        let fabric = self.fabric();
        let links = self.old.get(&node).filter(|links| !links.is_empty())?;
        let next = links.iter().map(|link| {
            let next = self
                .kept
                .contains(link)
                .then(|| fabric.link(*link).far(node).node);
            self.undisturbed.get(&next?).copied()
        });
        let distances: Option<Vec<_>> = next.collect();
        Some(distances?.into_iter().min()? + 1)
    }

    /// Returns none if a node has no path.
    fn hops(&self) -> Option<BTreeMap<NodeId, Vec<NextHop>>> {
        let distances = self.distances();
        let hops = self.old.keys().map(|&node| {
            if self.undisturbed.contains_key(&node) {
                return Some((node, hops_of(&self.at.tables, &self.old, node, self.to)));
            }
            let link = self.best(node, &distances)?;
            Some((node, vec![NextHop { link, weight: 1 }]))
        });
        hops.collect()
    }

    /// Distances of all nodes: undisturbed ones keep theirs, and each other one is one more than its nearest
    /// neighbour's.
    fn distances(&self) -> BTreeMap<NodeId, usize> {
        let mut distances = self.undisturbed.clone();
        let mut rings: BTreeMap<usize, Vec<NodeId>> = BTreeMap::new();
        for (&node, &distance) in &distances {
            rings.entry(distance).or_default().push(node);
        }
        while let Some((distance, ring)) = rings.pop_first() {
            for node in ring.into_iter().filter(|&node| self.passes(node)) {
                for next in self.neighbours(node) {
                    if distances
                        .get(&next)
                        .is_none_or(|&known| known > distance + 1)
                        && !self.undisturbed.contains_key(&next)
                    {
                        distances.insert(next, distance + 1);
                        rings.entry(distance + 1).or_default().push(next);
                    }
                }
            }
        }
        distances
    }

    /// The link to a nearer node, preferably one in use.
    fn best(&self, node: NodeId, distances: &BTreeMap<NodeId, usize>) -> Option<LinkId> {
        let own = distances.get(&node)?;
        let fabric = self.fabric();
        let leads_on = |link: &LinkId| {
            let next = fabric.link(*link).far(node).node;
            let is_nearer = distances.get(&next).is_some_and(|next| next < own);
            self.kept.contains(link) && self.passes(next) && is_nearer
        };
        let links = self.at.open[node.index()].iter().copied();
        let links = links.filter(leads_on);
        links.min_by_key(|link| (!self.old[&node].contains(link), *link))
    }

    fn neighbours(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        let links = self.at.open[node.index()].iter();
        let kept = links.filter(|link| self.kept.contains(link));
        kept.map(move |&link| self.fabric().link(link).far(node).node)
    }

    fn passes(&self, node: NodeId) -> bool {
        node == self.to || self.fabric().node(node).role.forwards()
    }

    fn fabric(&self) -> &'a Fabric {
        self.at.from.fabric
    }
}
