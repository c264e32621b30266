//! Forwarding tables: what a host that forwards for others does with packets that are not for itself.
//!
//! A table depends on the destination alone, so that a kernel or a card can hold it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ids::{LinkId, NodeId};

/// One of the links over which a host sends on, and how much against the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextHop {
    pub link: LinkId,
    pub weight: u32,
}

/// All that one host needs to know to forward.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForwardingTable {
    pub at: NodeId,
    /// By destination. Hosts without a way are absent.
    pub towards: BTreeMap<NodeId, Vec<NextHop>>,
    /// What comes in over the first link and goes on over the second moves to the next class of
    /// service, in which buffers are its own, so that no circle of full buffers can arise.
    pub raises: Vec<[LinkId; 2]>,
}

impl ForwardingTable {
    pub fn next_hops(&self, to: NodeId) -> &[NextHop] {
        self.towards.get(&to).map_or(&[], Vec::as_slice)
    }
}
