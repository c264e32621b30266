//! Visits hosts in turn. Work on every probe of every host covers a part of the hosts at a time; all of thousands at
//! once would delay everything else.

use std::ops::Range;

use reweave_common::ids::NodeId;

/// This number of probe flows takes a few milliseconds.
const MAX_FLOWS_PER_TURN: usize = 1 << 14;

#[derive(Debug, Clone)]
pub(crate) struct RoundRobin {
    next: NodeId,
    most: usize,
}

/// The hosts of this turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) nodes: Range<NodeId>,
    /// This is the last batch of the round.
    pub(crate) is_last: bool,
}

fn node(index: usize) -> NodeId {
    NodeId::from_index(index)
}

/// A node behind all others.
fn end() -> NodeId {
    node(u32::MAX as usize)
}

impl Default for RoundRobin {
    fn default() -> Self {
        Self::of(MAX_FLOWS_PER_TURN)
    }
}

impl RoundRobin {
    /// Visits at most this number of flows at a time.
    pub(crate) fn of(most: usize) -> Self {
        let next = node(0);
        Self { next, most }
    }

    /// The remaining nodes of the round.
    pub(crate) fn next(&self) -> Range<NodeId> {
        self.next..end()
    }

    /// Takes as many of the nodes as fit into one turn by their numbers of flows.
    pub(crate) fn take(&mut self, nodes: impl IntoIterator<Item = (NodeId, usize)>) -> Batch {
        let (from, mut sum) = (self.next, 0);
        let mut nodes = nodes.into_iter();
        while sum < self.most
            && let Some((_, flows)) = nodes.next()
        {
            sum += flows.max(1);
        }
        let next = nodes.next().map(|(node, _)| node);
        self.next = next.unwrap_or(node(0));
        Batch {
            nodes: from..next.unwrap_or(end()),
            is_last: next.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_robin_serves_each_node_once() {
        let flows = [3, 0, 9, 1, 1];
        let nodes = |from: NodeId| {
            let nodes = flows.into_iter().enumerate().skip(from.index());
            nodes.map(|(index, flows)| (node(index), flows))
        };
        let mut turns = RoundRobin::of(4);
        let mut taken = || {
            let Batch { nodes, is_last } = turns.take(nodes(turns.next().start));
            (nodes.start.index()..nodes.end.index(), is_last)
        };
        let round = [(0..2, false), (2..3, false), (3..end().index(), true)];
        for _ in 0..2 {
            assert_eq!([(); 3].map(|()| taken()), round);
        }
        let mut all = RoundRobin::default();
        for taken in [all.take(nodes(node(0))), all.take([])] {
            assert_eq!((taken.nodes, taken.is_last), (node(0)..end(), true));
        }
    }
}
