//! A fabric as agents see it, from which a fabric file is written.

use serde::{Deserialize, Serialize};

use crate::fabric::Role;
use crate::units::Rate;

/// The observed fabric. Of a large fabric it has some of the links: as many as fit into one answer, from a given one
/// on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Discovered {
    pub nodes: Vec<DiscoveredNode>,
    pub links: Vec<DiscoveredLink>,
    /// Number of all links.
    pub all_links: usize,
    /// Ends with an unknown neighbour; not all of a large cluster.
    pub loose: Vec<LooseEnd>,
    /// Other doubts about the data.
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
    /// The lower of the rates that both ends report; absent if neither does.
    pub rate_bits_per_s: Option<Rate>,
    /// Evidence for the link.
    pub because: Vec<String>,
    /// Reasons to doubt the link. A link without any is certain.
    pub doubts: Vec<String>,
    /// Whether other links are equally possible.
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
