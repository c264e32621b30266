//! Flow imbalance, with names of nodes and links.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::place::Hop;
use crate::finding::Imbalance;

/// Flow imbalance over all switches that choose among links for elephant flows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FlowImbalance {
    pub mean_fim_percent: f64,
    /// Links with the most uneven spread.
    pub worst_over: Vec<Hop>,
    pub worst: Imbalance,
}

/// Flow imbalance per layer and per group of links.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Imbalances {
    /// Absent if no elephant flow has a choice of links.
    pub all: Option<FlowImbalance>,
    pub layers: Vec<LayerImbalance>,
    /// Groups farthest above their floor first; not all of a large cluster.
    pub groups: Vec<GroupImbalance>,
    /// Elephant flows that are not counted, because a hop of their path is unknown.
    pub unknown_flows: usize,
    /// Jobs farthest above their floor first; not all of a large cluster.
    pub jobs: Vec<JobImbalance>,
    /// Recent values, oldest first; without times at which no elephant flow had a choice.
    pub history: Vec<NotedImbalance>,
}

/// Flow imbalance of one job's elephant flows, as if no other job sent data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobImbalance {
    /// Name of the job, as for jobs that traffic shows.
    pub job: String,
    pub flows: usize,
    pub all: FlowImbalance,
}

/// A past value over all elephant flows, with its age.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NotedImbalance {
    pub age_ms: u64,
    pub mean_fim_percent: f64,
    /// Value of the links with the most uneven spread.
    pub worst: Imbalance,
}

/// Links between switches at this distance from the hosts, in this direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LayerImbalance {
    pub from_tier: u32,
    pub to_tier: u32,
    /// Whether switches choose among these links. Otherwise the links lead to a switch that a previous choice
    /// determined.
    pub is_chosen: bool,
    pub groups: usize,
    pub mean_fim_percent: f64,
    /// Values of the group with the largest FIM.
    pub worst: Imbalance,
    pub max_over_mean: f64,
}

impl fmt::Display for LayerImbalance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = if self.is_chosen {
            ""
        } else {
            ", chosen before"
        };
        write!(f, "tier {} to {}{by}", self.from_tier, self.to_tier)
    }
}

/// Equivalent links of one switch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct GroupImbalance {
    pub from_tier: u32,
    pub to_tier: u32,
    pub is_chosen: bool,
    pub over: Vec<Hop>,
    pub imbalance: Imbalance,
}
