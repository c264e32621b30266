//! Changes tables in rounds; within a round, nodes may change in any order.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use reweave_common::forwarding::NextHop;
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::migration_plan::{Round, Tables};

use super::round_order::{Change, Next};
use super::{NextLinksByNode, Position};
use crate::log::migration_steps::own_table;

/// Returns none if the desired tables contain a loop.
pub(super) fn rounds(at: &Position<'_>, wanted: &Tables) -> Option<Vec<Round>> {
    let mut turns: BTreeMap<NodeId, BTreeMap<NodeId, usize>> = BTreeMap::new();
    for (to, changed) in changed(at, wanted) {
        let change = change(at, wanted, to, changed);
        turns.insert(to, change.turns(at.from.pace)?);
    }
    let last = turns.values().flat_map(BTreeMap::values).max();
    let last = last.map_or(0, |last| last + 1);
    let round = |number| round(at, wanted, &turns, number);
    Some((0..last).map(round).collect())
}

/// The new tables of all nodes that change in this round for any destination.
fn round(
    at: &Position<'_>,
    wanted: &Tables,
    turns: &BTreeMap<NodeId, BTreeMap<NodeId, usize>>,
    number: usize,
) -> Round {
    let of_node = turns.values().flatten();
    let now = of_node
        .filter(|(_, turn)| **turn == number)
        .map(|(&node, _)| node);
    let nodes: BTreeSet<_> = now.collect();
    nodes
        .into_iter()
        .map(|node| {
            let mut table = wanted
                .get(&node)
                .cloned()
                .unwrap_or_else(|| own_table(node));
            for (to, turns) in turns {
                if turns.get(&node).is_some_and(|&turn| turn > number) {
                    match entry(&at.tables, node, *to) {
                        Some(hops) => table.towards.insert(*to, hops.clone()),
                        None => table.towards.remove(to),
                    };
                }
            }
            (node, table)
        })
        .collect()
}

/// Returns by destination the nodes whose present or possible next hops differ from the desired ones.
fn changed(at: &Position<'_>, wanted: &Tables) -> BTreeMap<NodeId, BTreeSet<NodeId>> {
    let mut changed: BTreeMap<NodeId, BTreeSet<NodeId>> = BTreeMap::new();
    let tables = [&at.tables, wanted, &at.unsure].into_iter().flatten();
    let said = tables.flat_map(|(&node, table)| table.towards.keys().map(move |&to| (node, to)));
    for (node, to) in said.filter(|(node, to)| node != to) {
        let differs = |tables: &Tables| entry(tables, node, to) != entry(wanted, node, to);
        if differs(&at.tables) || at.unsure.contains_key(&node) && differs(&at.unsure) {
            changed.entry(to).or_default().insert(node);
        }
    }
    changed
}

/// The change for a destination, with all nodes that packets may reach from the changing ones. Nodes that only send to
/// these do not matter.
fn change(at: &Position<'_>, wanted: &Tables, to: NodeId, changed: BTreeSet<NodeId>) -> Change {
    let own = Own::new(at, to);
    let heads = |tables: &Tables, node: NodeId| -> BTreeSet<NodeId> {
        let far = |link| at.from.fabric.link(link).far(node).node;
        own.links(tables, node).into_iter().map(far).collect()
    };
    let (mut old, mut new) = (Next::new(), Next::new());
    let mut open: Vec<_> = changed.iter().copied().collect();
    while let Some(node) = open.pop() {
        if node == to || old.contains_key(&node) {
            continue;
        }
        let (mut before, after) = (heads(&at.tables, node), heads(wanted, node));
        if at.unsure.contains_key(&node) {
            before.extend(heads(&at.unsure, node));
        }
        open.extend(before.iter().chain(&after));
        old.insert(node, before);
        new.insert(node, after);
    }
    Change {
        to,
        old,
        new,
        changed,
    }
}

/// The links of every node towards the destination, by its table or by the network's own routes.
pub(super) fn ways_towards(at: &Position<'_>, tables: &Tables, to: NodeId) -> NextLinksByNode {
    let own = Own::new(at, to);
    let nodes = at.from.fabric.nodes().map(|(node, _)| node);
    let others = nodes.filter(|&node| node != to);
    others.map(|node| (node, own.links(tables, node))).collect()
}

/// The network's own routes to one destination, computed only if some node has no table.
struct Own<'a> {
    at: &'a Position<'a>,
    to: NodeId,
    routes: OnceCell<Vec<Vec<LinkId>>>,
}

impl<'a> Own<'a> {
    fn new(at: &'a Position<'a>, to: NodeId) -> Self {
        Self {
            at,
            to,
            routes: OnceCell::new(),
        }
    }

    /// The links by the node's table, otherwise by the network's own routes.
    fn links(&self, tables: &Tables, node: NodeId) -> Vec<LinkId> {
        if let Some(hops) = entry(tables, node, self.to) {
            return hops.iter().map(|hop| hop.link).collect();
        }
        let routes = self.routes.get_or_init(|| own_routes(self.at, self.to));
        routes[node.index()].clone()
    }
}

/// The next hops with their weights from the tables.
pub(super) fn hops_of(
    tables: &Tables,
    ways: &NextLinksByNode,
    node: NodeId,
    to: NodeId,
) -> Vec<NextHop> {
    let hop = |&link: &LinkId| NextHop { link, weight: 1 };
    let own = || ways[&node].iter().map(hop).collect();
    entry(tables, node, to).cloned().unwrap_or_else(own)
}

fn entry(tables: &Tables, node: NodeId, to: NodeId) -> Option<&Vec<NextHop>> {
    tables.get(&node)?.towards.get(&to)
}

/// All shortest paths over open links, through nodes that forward.
fn own_routes(at: &Position<'_>, to: NodeId) -> Vec<Vec<LinkId>> {
    let fabric = at.from.fabric;
    let mut routes = vec![Vec::new(); fabric.nodes().len()];
    let mut hops = vec![None; fabric.nodes().len()];
    hops[to.index()] = Some(0);
    let mut queue = VecDeque::from([(to, 0)]);
    while let Some((node, far)) = queue.pop_front() {
        if node != to && !fabric.node(node).role.forwards() {
            continue;
        }
        for &link in &at.open[node.index()] {
            let next = fabric.link(link).far(node).node;
            let known = *hops[next.index()].get_or_insert_with(|| {
                queue.push_back((next, far + 1));
                far + 1
            });
            if known == far + 1 {
                routes[next.index()].push(link);
            }
        }
    }
    routes
}
