//! Explicit paths of traffic, which replace shortest paths.

use std::collections::BTreeMap;

use crate::ids::{NodeId, Rank};

/// A path between two nodes, with all nodes from the first to the last.
#[derive(Debug, Clone, PartialEq)]
pub struct NodePath {
    pub nodes: Vec<NodeId>,
    /// Weight of the path against the other paths of the same pair.
    pub weight: f64,
}

/// A cycle through the members of a group, whose order may differ from the group's.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupRing {
    pub members: Vec<Rank>,
    /// Nodes from the host of each member to the host of the next. None stands for the default path.
    pub legs: Vec<Option<Vec<NodeId>>>,
    /// Weight of the ring against the other rings of the group.
    pub weight: f64,
}

/// Overlaid spanning trees of a group. An all-reduce goes up and down each tree in pieces, so each edge carries its
/// share in both directions at once.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Forest {
    pub branches: Vec<ForestEdge>,
    /// Maximum number of edges on a path from the root.
    pub depth: u32,
}

/// An edge that joins two members in some of a forest's trees.
#[derive(Debug, Clone, PartialEq)]
pub struct ForestEdge {
    pub ends: [Rank; 2],
    /// Nodes from one host to the other. None stands for the default path.
    pub along: Option<Vec<NodeId>>,
    /// Share of the reduced data that passes the edge in each direction.
    pub share: f64,
}

/// Explicit paths. Pairs and groups that are not named use their default paths.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExplicitPaths {
    pub ways: BTreeMap<(NodeId, NodeId), Vec<NodePath>>,
    /// By group, as it is listed in the iteration.
    pub rings: BTreeMap<Vec<Rank>, Vec<GroupRing>>,
    /// Trees for the all-reduces of a group; they win over its rings.
    pub forests: BTreeMap<Vec<Rank>, Forest>,
}
