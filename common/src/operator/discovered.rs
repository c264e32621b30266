//! A fabric as agents see it, for its file to be written from.

use serde::{Deserialize, Serialize};

use crate::fabric::Role;
use crate::units::Rate;

/// Of a large fabric, some of the links: as many as fit into one answer, from one on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discovered {
    pub nodes: Vec<DiscoveredNode>,
    pub links: Vec<DiscoveredLink>,
    /// How many there are in all.
    pub all_links: usize,
    /// Ends that lead nowhere, as far as is seen; not all of a large cluster.
    pub loose: Vec<LooseEnd>,
    /// What else may not be as it looks.
    pub doubts: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscoveredNode {
    pub name: String,
    pub role: Role,
    pub doubts: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiscoveredLink {
    pub ends: [LinkEnd; 2],
    /// The slower of what both ends say; absent where neither does.
    pub rate_bits_per_s: Option<Rate>,
    /// By what it is known.
    pub because: Vec<String>,
    /// Why it may not be so. A link without any is sure.
    pub doubts: Vec<String>,
    /// Whether it is only one of several that could be.
    pub is_guess: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LinkEnd {
    pub node: String,
    /// Absent if it is unknown.
    pub interface: Option<String>,
}

/// An interface that is up, with an unknown neighbour.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LooseEnd {
    pub node: String,
    pub interface: String,
    pub rate_bits_per_s: Option<Rate>,
}
