//! The round of each node, for one destination.
//!
//! All nodes are ordered from the destination on, so that a node that has not followed yet sends only to nodes before
//! it. A node whose new next hops are before it, too, may follow in this round: a packet comes nearer to the front
//! with every hop, whichever nodes of the round have already followed.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::ids::NodeId;

/// How many nodes follow in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RoundWidth {
    /// As many as can without a circle.
    Wide,
    /// Only who sends to such as have nothing but new ways before them. On a fabric that drops nothing, buffers
    /// of old and new ways wait for each other where many of them are mixed.
    Narrow,
}

/// What changes for one destination.
pub(super) struct Change {
    pub(super) to: NodeId,
    /// Where packets may go next: before, and after.
    pub(super) old: Next,
    pub(super) new: Next,
    pub(super) changed: BTreeSet<NodeId>,
}

/// Of every node but the destination.
pub(super) type Next = BTreeMap<NodeId, BTreeSet<NodeId>>;
type Turns = BTreeMap<NodeId, usize>;

impl Change {
    /// The round of each node that changes. None when the new ways circle.
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

/// How many hops each node is from the destination on the longest way. None when something circles.
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

/// Of nodes that can be next, the one that is nearest by the new paths comes first. So no node is put in the queue
/// before those that its new path leads over, where these have none but new paths before them. The nearest of those
/// that are left can always follow.
struct RoundQueue<'a> {
    change: &'a Change,
    pace: RoundWidth,
    left: &'a BTreeSet<NodeId>,
    far: &'a BTreeMap<NodeId, usize>,
    /// Who sends to a node.
    tails: BTreeMap<NodeId, Vec<NodeId>>,
    /// To how many nodes that are not in the row it sends.
    missing: BTreeMap<NodeId, usize>,
    waiting: BTreeSet<(usize, NodeId)>,
    ready: BTreeSet<(usize, NodeId)>,
    placed: BTreeSet<NodeId>,
    /// None but new ways are before them.
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

    /// Where something circles already, there is no such queue. The nearest node may cure it, and nodes that send there
    /// wait until it does.
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
