//! From tables to tables in rounds: whoever is nearer to a destination goes first.
//!
//! A packet that has met a node with its new way meets only such nodes from there on, and until
//! then it goes as it went before. So it cannot circle, whoever of a round has followed already.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use reweave_common::course::{Round, Tables};
use reweave_common::fabric::Fabric;
use reweave_common::forwarding::{ForwardingTable, NextHop};
use reweave_common::ids::{LinkId, NodeId};

use super::{Position, Ways};

/// None when the tables wanted circle by themselves.
pub(super) fn rounds(at: &Position<'_>, wanted: &Tables) -> Option<Vec<Round>> {
    let mut turns: BTreeMap<NodeId, BTreeMap<NodeId, usize>> = BTreeMap::new();
    for to in at.from.fabric.endpoints() {
        for (node, turn) in Change::new(at, wanted, to).turns()? {
            turns.entry(to).or_default().insert(node, turn);
        }
    }
    let last = turns.values().flat_map(BTreeMap::values).max();
    let last = last.map_or(0, |last| last + 1);
    let round = |number| round(at, wanted, &turns, number);
    Some((0..last).map(round).collect())
}

/// The tables of all nodes whose turn it is for some destination.
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
    let table = |node: NodeId| {
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
    };
    nodes.into_iter().map(table).collect()
}

/// What changes towards one destination.
struct Change {
    to: NodeId,
    /// Where packets may go next: before, and after.
    old: Next,
    new: Next,
    changed: BTreeSet<NodeId>,
}

type Next = BTreeMap<NodeId, BTreeSet<NodeId>>;

impl Change {
    fn new(at: &Position<'_>, wanted: &Tables, to: NodeId) -> Self {
        let (before, new) = (
            ways_towards(at, &at.tables, to),
            ways_towards(at, wanted, to),
        );
        let mut changed: BTreeSet<_> = before.keys().copied().collect();
        changed.retain(|&node| {
            let differs = |tables: &Tables| entry(tables, node, to) != entry(wanted, node, to);
            differs(&at.tables) || at.unsure.contains_key(&node) && differs(&at.unsure)
        });
        let mut old = heads(at.from.fabric, &before);
        let mut unsure = ways_towards(at, &at.unsure, to);
        unsure.retain(|node, _| at.unsure.contains_key(node));
        for (node, heads) in heads(at.from.fabric, &unsure) {
            old.entry(node).or_default().extend(heads);
        }
        Self {
            to,
            new: heads(at.from.fabric, &new),
            old,
            changed,
        }
    }

    /// The round of each node that changes.
    fn turns(&self) -> Option<BTreeMap<NodeId, usize>> {
        let mut union = self.new.clone();
        for (&node, heads) in &self.old {
            union.entry(node).or_default().extend(heads);
        }
        let never_circles = depths(&union, self.to, |_| 0).is_some();
        let turn_of = |node: &NodeId| usize::from(self.changed.contains(node) && !never_circles);
        let depths = depths(&self.new, self.to, turn_of)?;
        let turn = |&node: &NodeId| Some((node, depths.get(&node)?.saturating_sub(1)));
        self.changed.iter().map(turn).collect()
    }
}

/// How much lies behind each node, by what each is worth; the node itself counts. None when
/// something circles.
fn depths(
    next: &Next,
    to: NodeId,
    worth: impl Fn(&NodeId) -> usize,
) -> Option<BTreeMap<NodeId, usize>> {
    let mut depths = BTreeMap::from([(to, 0)]);
    while depths.len() < next.len() + 1 {
        let open = next.iter().filter(|(node, _)| !depths.contains_key(node));
        let settled = open.filter_map(|(node, heads)| {
            let behind: Option<Vec<_>> = heads.iter().map(|head| depths.get(head)).collect();
            let most = behind?.into_iter().max().copied().unwrap_or_default();
            Some((*node, most + worth(node)))
        });
        let settled: Vec<_> = settled.collect();
        if settled.is_empty() {
            return None;
        }
        depths.extend(settled);
    }
    Some(depths)
}

fn heads(fabric: &Fabric, ways: &Ways) -> Next {
    let heads = |(&node, links): (&NodeId, &Vec<LinkId>)| {
        let heads = links.iter().map(|&link| fabric.link(link).far(node).node);
        (node, heads.collect())
    };
    ways.iter().map(heads).collect()
}

/// Of every node but the destination: the links by its table, or by the network's own routes.
pub(super) fn ways_towards(at: &Position<'_>, tables: &Tables, to: NodeId) -> Ways {
    let mut ways = own_routes(at, to);
    for (node, links) in &mut ways {
        if let Some(hops) = entry(tables, *node, to) {
            *links = hops.iter().map(|hop| hop.link).collect();
        }
    }
    ways
}

/// With the weights that the tables have.
pub(super) fn hops_of(tables: &Tables, ways: &Ways, node: NodeId, to: NodeId) -> Vec<NextHop> {
    let hop = |&link: &LinkId| NextHop { link, weight: 1 };
    let own = || ways[&node].iter().map(hop).collect();
    entry(tables, node, to).cloned().unwrap_or_else(own)
}

fn entry(tables: &Tables, node: NodeId, to: NodeId) -> Option<&Vec<NextHop>> {
    tables.get(&node)?.towards.get(&to)
}

pub(super) fn own_table(at: NodeId) -> ForwardingTable {
    ForwardingTable {
        at,
        towards: BTreeMap::new(),
        raises: Vec::new(),
    }
}

/// All shortest ways over open links, through nodes that forward.
fn own_routes(at: &Position<'_>, to: NodeId) -> Ways {
    let fabric = at.from.fabric;
    let others = fabric
        .nodes()
        .map(|(node, _)| node)
        .filter(|&node| node != to);
    let mut routes: Ways = others.map(|node| (node, Vec::new())).collect();
    let mut hops = BTreeMap::from([(to, 0)]);
    let mut queue = VecDeque::from([(to, 0)]);
    while let Some((node, far)) = queue.pop_front() {
        if node != to && !fabric.node(node).role.forwards() {
            continue;
        }
        for &link in &at.open[node.index()] {
            let next = fabric.link(link).far(node).node;
            let known = *hops.entry(next).or_insert_with(|| {
                queue.push_back((next, far + 1));
                far + 1
            });
            if known == far + 1 {
                routes.entry(next).or_default().push(link);
            }
        }
    }
    routes
}
