//! Forwarding tables: next hops of a host that forwards for others.
//!
//! A table depends only on the destination, so that a kernel or a NIC can hold it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::{LinkId, NodeId};

/// A link over which a host forwards, with its weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextHop {
    pub link: LinkId,
    pub weight: u32,
}

/// Forwarding state of one host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForwardingTable {
    pub at: NodeId,
    /// Next hops by destination. Unreachable hosts are absent.
    pub towards: BTreeMap<NodeId, Vec<NextHop>>,
    /// Traffic from the first to the second link moves to the next priority class, which has buffers of its own. This
    /// excludes cyclic buffer dependencies.
    pub raises: Vec<[LinkId; 2]>,
}

impl ForwardingTable {
    pub fn next_hops(&self, to: NodeId) -> &[NextHop] {
        self.towards.get(&to).map_or(&[], Vec::as_slice)
    }
}
