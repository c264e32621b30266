//! How traffic is to cross a fabric, where that is not left to the shortest ways.

use std::collections::BTreeMap;

use crate::ids::{NodeId, Rank};

/// One of the ways between two nodes, over all nodes from the first to the last.
#[derive(Debug, Clone, PartialEq)]
pub struct Way {
    pub nodes: Vec<NodeId>,
    /// How much of the traffic goes this way, against the other ways of the same pair.
    pub weight: f64,
}

/// A cycle through the members of a group. The ranks may be in another order than in their group.
#[derive(Debug, Clone, PartialEq)]
pub struct Ring {
    pub members: Vec<Rank>,
    /// From each member to the next: the nodes from the one's host to the other's. Where there is
    /// none, traffic goes as between any two.
    pub legs: Vec<Option<Vec<NodeId>>>,
    /// How much of a collective goes around this ring, against the other rings of the group.
    pub weight: f64,
}

/// Pairs and groups that are not named go their default way.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Carriage {
    pub ways: BTreeMap<(NodeId, NodeId), Vec<Way>>,
    /// By group, as it stands in the iteration.
    pub rings: BTreeMap<Vec<Rank>, Vec<Ring>>,
}
