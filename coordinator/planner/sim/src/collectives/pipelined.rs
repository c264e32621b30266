//! Collectives down trees, cut into pieces that follow each other.

use std::collections::BTreeMap;

use super::schedule::{Schedule, Send};

/// A tree: each host but the root takes from one that stands before it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tree {
    /// Sorted so that each parent comes before its children.
    pub(super) edges: Vec<Edge>,
    /// Bytes over each of its edges.
    pub(super) bytes: f64,
    pub(super) weight: u32,
}

impl Tree {
    /// The edges from the root to the furthest.
    pub(super) fn depth(&self) -> usize {
        let mut depths = BTreeMap::new();
        for edge in &self.edges {
            let above = depths.get(&edge.parent).copied().unwrap_or(0);
            depths.insert(edge.child, above + 1);
        }
        depths.into_values().max().unwrap_or(0)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Edge {
    pub(super) parent: usize,
    pub(super) child: usize,
    /// Nodes between the ends, if they are given.
    pub(super) along: Vec<reweave_common::ids::NodeId>,
}

impl Edge {
    pub(super) fn new(parent: usize, child: usize) -> Self {
        Self {
            parent,
            child,
            along: Vec::new(),
        }
    }
}

/// Direction of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TreeDirection {
    /// From the root to all members.
    Down,
    /// From all members to the root, with reduction.
    Up,
    /// Up, and the result down again.
    UpAndDown,
}

/// Each tree by itself, in this many pieces.
pub(super) fn schedule(
    trees: &[Tree],
    hosts: usize,
    pieces: usize,
    direction: TreeDirection,
) -> Schedule {
    let mut plan = Plan {
        hosts,
        sends: Vec::new(),
        waits: Vec::new(),
    };
    for tree in trees {
        plan.add(tree, pieces, direction);
    }
    Schedule::Graph {
        sends: plan.sends,
        waits: plan.waits,
    }
}

struct Plan {
    hosts: usize,
    sends: Vec<Send>,
    waits: Vec<[u32; 2]>,
}

impl Plan {
    fn add(&mut self, tree: &Tree, pieces: usize, direction: TreeDirection) {
        let mut before = [None, None];
        for _ in 0..pieces {
            let up = (direction != TreeDirection::Down).then(|| self.up(tree, pieces, before[0]));
            let arrived = up
                .map(|first| self.arriving_at_root(tree, first))
                .unwrap_or_default();
            let down = (direction != TreeDirection::Up)
                .then(|| self.down(tree, pieces, before[1], &arrived));
            before = [up, down];
        }
    }

    /// One piece on each edge towards the root; edge `n` is send `first + n`. A host passes on what
    /// all its children have sent it.
    fn up(&mut self, tree: &Tree, pieces: usize, before: Option<u32>) -> u32 {
        let first = self.sends.len() as u32;
        let mut from_children = vec![Vec::new(); self.hosts];
        for (nth, edge) in (0..).zip(&tree.edges) {
            from_children[edge.parent].push(first + nth);
        }
        for (nth, edge) in (0..).zip(&tree.edges) {
            let mut along = edge.along.clone();
            along.reverse();
            self.send(tree, pieces, [edge.child, edge.parent], along);
            self.follow(before, first, nth);
            let waits = from_children[edge.child].iter();
            self.waits.extend(waits.map(|&child| [child, first + nth]));
        }
        first
    }

    fn arriving_at_root(&self, tree: &Tree, first: u32) -> Vec<u32> {
        let root = tree.edges.first().map(|edge| edge.parent);
        let edges = (first..).zip(&tree.edges);
        let into = edges.filter(|(_, edge)| Some(edge.parent) == root);
        into.map(|(send, _)| send).collect()
    }

    /// Sends one piece over each edge from the root. Edges that leave the root wait for `arrived`.
    fn down(&mut self, tree: &Tree, pieces: usize, before: Option<u32>, arrived: &[u32]) -> u32 {
        let first = self.sends.len() as u32;
        let mut from_parent = vec![None; self.hosts];
        for (nth, edge) in (0..).zip(&tree.edges) {
            self.send(tree, pieces, [edge.parent, edge.child], edge.along.clone());
            self.follow(before, first, nth);
            match from_parent[edge.parent] {
                Some(send) => self.waits.push([send, first + nth]),
                None => self
                    .waits
                    .extend(arrived.iter().map(|&send| [send, first + nth])),
            }
            from_parent[edge.child] = Some(first + nth);
        }
        first
    }

    /// Pieces do not overtake each other on an edge.
    fn follow(&mut self, before: Option<u32>, first: u32, nth: u32) {
        self.waits
            .extend(before.map(|before| [before + nth, first + nth]));
    }

    fn send(
        &mut self,
        tree: &Tree,
        pieces: usize,
        [from, to]: [usize; 2],
        along: Vec<reweave_common::ids::NodeId>,
    ) {
        self.sends.push(Send {
            from,
            to,
            bytes: tree.bytes / pieces as f64,
            along,
            weight: tree.weight,
        });
    }
}

/// A chain through all hosts.
pub(super) fn chain(hosts: usize, bytes: f64) -> Tree {
    Tree {
        edges: (1..hosts)
            .map(|child| Edge::new(child - 1, child))
            .collect(),
        bytes,
        weight: 1,
    }
}

/// Returns two binary trees that share the bytes. An inner node of one is a leaf of the other, except for the roots, so
/// all hosts send about equal amounts.
pub(super) fn double_tree(hosts: usize, bytes: f64) -> Vec<Tree> {
    let first = binary_tree(hosts);
    let turned = |host: usize| (host + 1) % hosts;
    let mirrored = |host: usize| hosts - 1 - host;
    let other = |host: usize| {
        if hosts.is_multiple_of(2) {
            mirrored(host)
        } else {
            turned(host)
        }
    };
    let second = first
        .iter()
        .map(|edge| Edge::new(other(edge.parent), other(edge.child)));
    [second.collect(), first.clone()]
        .map(|edges| Tree {
            edges,
            bytes: bytes / 2.0,
            weight: 1,
        })
        .into()
}

/// Odd hosts are leaves; host 0 is the root and has one child, the host of the highest power of two.
fn binary_tree(hosts: usize) -> Vec<Edge> {
    let mut edges = Vec::new();
    let mut line = std::collections::VecDeque::new();
    if hosts > 1 {
        let top = 1 << (hosts - 1).ilog2();
        edges.push(Edge::new(0, top));
        line.push_back([top, top]);
    }
    while let Some([host, bit]) = line.pop_front() {
        let below = bit / 2;
        if below == 0 {
            continue;
        }
        let mut children = vec![[host - below, below]];
        children.extend(right_child(host, below, hosts));
        for [child, bit] in children {
            edges.push(Edge::new(host, child));
            line.push_back([child, bit]);
        }
    }
    edges
}

/// The host above, or the first of those below it that is there.
fn right_child(host: usize, below: usize, hosts: usize) -> Option<[usize; 2]> {
    let mut step = below;
    while step > 0 {
        if host + step < hosts {
            return Some([host + step, step]);
        }
        step /= 2;
    }
    None
}
