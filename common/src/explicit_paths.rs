//! Explicit paths of traffic, in place of shortest paths.

use std::collections::BTreeMap;

use crate::ids::{NodeId, Rank};

/// One of the ways between two nodes, over all nodes from the first to the last.
#[derive(Debug, Clone, PartialEq)]
pub struct NodePath {
    pub nodes: Vec<NodeId>,
    /// How much of the traffic goes this way, against the other ways of the same pair.
    pub weight: f64,
}

/// A cycle through the members of a group. The ranks may be in another order than in their group.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupRing {
    pub members: Vec<Rank>,
    /// From each member to the next: the nodes from the one's host to the other's. Where there is
    /// none, traffic goes as between any two.
    pub legs: Vec<Option<Vec<NodeId>>>,
    /// How much of a collective goes around this ring, against the other rings of the group.
    pub weight: f64,
}

/// Spanning trees of a group, laid on top of one another. An all-reduce goes up each tree and down
/// again, piece after piece, so that each branch carries its share both ways at once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Forest {
    pub branches: Vec<ForestEdge>,
    /// How many branches lie one behind the other at most.
    pub depth: u32,
}

/// What joins two members in some of a forest's trees.
#[derive(Debug, Clone, PartialEq)]
pub struct ForestEdge {
    pub ends: [Rank; 2],
    /// The nodes from the one's host to the other's; as between any two where there are none.
    pub along: Option<Vec<NodeId>>,
    /// What part of what is reduced goes over it, each way.
    pub share: f64,
}

/// Pairs and groups that are not named go their default way.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExplicitPaths {
    pub ways: BTreeMap<(NodeId, NodeId), Vec<NodePath>>,
    /// By group, as it stands in the iteration.
    pub rings: BTreeMap<Vec<Rank>, Vec<GroupRing>>,
    /// For the all-reduces of a group, before its rings.
    pub forests: BTreeMap<Vec<Rank>, Forest>,
}
