//! Who sends how much to whom.

use std::collections::BTreeMap;

use crate::ids::NodeId;
use crate::units::Bytes;

/// Bytes per ordered pair of endpoints. Pairs without traffic are absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrafficMatrix {
    bytes: BTreeMap<(NodeId, NodeId), Bytes>,
}

impl TrafficMatrix {
    pub fn add(&mut self, from: NodeId, to: NodeId, bytes: Bytes) {
        if bytes > Bytes::ZERO {
            *self.bytes.entry((from, to)).or_default() += bytes;
        }
    }

    pub fn get(&self, from: NodeId, to: NodeId) -> Bytes {
        self.bytes.get(&(from, to)).copied().unwrap_or_default()
    }

    pub fn pairs(&self) -> impl ExactSizeIterator<Item = (NodeId, NodeId, Bytes)> {
        self.bytes
            .iter()
            .map(|(&(from, to), &bytes)| (from, to, bytes))
    }

    pub fn total(&self) -> Bytes {
        self.bytes.values().copied().sum()
    }
}
