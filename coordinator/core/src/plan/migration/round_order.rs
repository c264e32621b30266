//! The round of each node, for one destination.
//!
//! Nodes are ordered from the destination on, so that a node with its old table only sends to nodes before it. A node
//! whose new next hops are before it, too, may change in this round: every hop brings a packet nearer to the
//! destination, whichever nodes have already changed.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::ids::NodeId;

/// Number of nodes that change in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RoundWidth {
    /// As many as possible without a loop.
    Wide,
    /// Only nodes whose new next hops are all final. On a lossless fabric, buffers on a mixture of old and new paths
    /// could wait for each other.
    Narrow,
}

/// The change for one destination.
pub(super) struct Change {
    pub(super) to: NodeId,
    /// The next hops before and after.
    pub(super) old: Next,
    pub(super) new: Next,
    pub(super) changed: BTreeSet<NodeId>,
}

/// The next hops of every node other than the destination.
pub(super) type Next = BTreeMap<NodeId, BTreeSet<NodeId>>;
type Turns = BTreeMap<NodeId, usize>;

impl Change {
    /// The round of each node that changes. None if the new paths form a loop.
    pub(super) fn turns(&self, pace: RoundWidth) -> Option<Turns> {
        let far = depths(&self.new, self.to)?;
        let mut turns = Turns::new();
        for round in 0.. {
            let is_left = |node: &&NodeId| !turns.contains_key(node);
            let left: BTreeSet<_> = self.changed.iter().filter(is_left).copied().collect();
            if left.is_empty() {
                break;
            }
            let going = RoundQueue::new(self, pace, &left, &far).going();
            turns.extend(going.into_iter().map(|node| (node, round)));
        }
        Some(turns)
    }
}

/// The length of each node's longest path to the destination. None if there is a loop.
fn depths(next: &Next, to: NodeId) -> Option<BTreeMap<NodeId, usize>> {
    let mut depths = BTreeMap::from([(to, 0)]);
    while depths.len() < next.len() + 1 {
        let open = next.iter().filter(|(node, _)| !depths.contains_key(node));
        let settled = open.filter_map(|(node, heads)| {
            let behind: Option<Vec<_>> = heads.iter().map(|head| depths.get(head)).collect();
            let most = behind?.into_iter().max().copied().unwrap_or_default();
            Some((*node, most + 1))
        });
        let settled: Vec<_> = settled.collect();
        if settled.is_empty() {
            return None;
        }
        depths.extend(settled);
    }
    Some(depths)
}

/// Of the nodes that can change next, the nearest by the new paths comes first. So a node never comes before the next
/// hops of its new paths if those are final. The nearest remaining node can always change.
struct RoundQueue<'a> {
    change: &'a Change,
    pace: RoundWidth,
    left: &'a BTreeSet<NodeId>,
    far: &'a BTreeMap<NodeId, usize>,
    /// The nodes that send to a node.
    tails: BTreeMap<NodeId, Vec<NodeId>>,
    /// The number of next hops that are not in the order yet.
    missing: BTreeMap<NodeId, usize>,
    waiting: BTreeSet<(usize, NodeId)>,
    ready: BTreeSet<(usize, NodeId)>,
    placed: BTreeSet<NodeId>,
    /// Nodes with only new paths before them.
    settled: BTreeSet<NodeId>,
}

impl<'a> RoundQueue<'a> {
    fn new(
        change: &'a Change,
        pace: RoundWidth,
        left: &'a BTreeSet<NodeId>,
        far: &'a BTreeMap<NodeId, usize>,
    ) -> Self {
        let mut row = Self {
            change,
            pace,
            left,
            far,
            tails: BTreeMap::new(),
            missing: BTreeMap::new(),
            waiting: BTreeSet::new(),
            ready: BTreeSet::new(),
            placed: BTreeSet::new(),
            settled: BTreeSet::from([change.to]),
        };
        for &node in change.new.keys() {
            row.expect(node);
        }
        row.place(change.to);
        row
    }

    fn expect(&mut self, node: NodeId) {
        let heads = self.heads(node);
        for &head in heads {
            self.tails.entry(head).or_default().push(node);
        }
        self.missing.insert(node, heads.len());
        let queue = if heads.is_empty() {
            &mut self.ready
        } else {
            &mut self.waiting
        };
        queue.insert((self.far[&node], node));
    }

    fn heads(&self, node: NodeId) -> &'a BTreeSet<NodeId> {
        let is_left = self.left.contains(&node);
        let next = if is_left {
            &self.change.old
        } else {
            &self.change.new
        };
        &next[&node]
    }

    fn place(&mut self, node: NodeId) {
        self.placed.insert(node);
        for tail in self.tails.remove(&node).unwrap_or_default() {
            let missing = self.missing.entry(tail).or_default();
            *missing -= 1;
            let entry = (self.far[&tail], tail);
            if *missing == 0 && self.waiting.remove(&entry) {
                self.ready.insert(entry);
            }
        }
    }

    /// If there is already a loop, no complete order exists. The nearest node may break the loop, and nodes that send
    /// into it wait.
    fn next(&mut self) -> Option<NodeId> {
        if self.ready.is_empty() {
            self.pace = RoundWidth::Narrow;
        }
        let next = self.ready.pop_first().or_else(|| self.waiting.pop_first());
        next.map(|(_, node)| node)
    }

    fn going(mut self) -> Vec<NodeId> {
        let mut going = Vec::new();
        while let Some(node) = self.next() {
            let new = &self.change.new[&node];
            let is_settled = new.is_subset(&self.settled);
            let may_go = match self.pace {
                RoundWidth::Wide => new.is_subset(&self.placed),
                RoundWidth::Narrow => is_settled,
            };
            let is_left = self.left.contains(&node);
            if is_left && may_go {
                going.push(node);
            }
            if !is_left && is_settled {
                self.settled.insert(node);
            }
            self.place(node);
        }
        going
    }
}
