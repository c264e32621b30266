//! Flow imbalance, by name.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::place::Hop;
use crate::finding::Imbalance;

/// Over all switches that have a choice of links for elephants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FlowImbalance {
    pub mean_fim_percent: f64,
    /// The links over which flows are spread most unevenly.
    pub worst_over: Vec<Hop>,
    pub worst: Imbalance,
}

/// The same layer by layer and group by group.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Imbalances {
    /// Absent when no elephant goes where there is a choice.
    pub all: Option<FlowImbalance>,
    pub layers: Vec<LayerImbalance>,
    /// Those first that are farthest above their floor; not all of a large cluster.
    pub groups: Vec<GroupImbalance>,
    /// Elephants that are not counted, since a hop of their way is not known.
    pub unknown_flows: usize,
    /// Those first that are farthest above their floor; not all of a large cluster.
    pub jobs: Vec<JobImbalance>,
    /// How it was of late, the oldest first; nothing of when no elephant had a choice.
    pub history: Vec<NotedImbalance>,
}

/// For one job's elephants alone, as if no other job sent anything.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobImbalance {
    /// As jobs are called that traffic shows.
    pub job: String,
    pub flows: usize,
    pub all: FlowImbalance,
}

/// Of all elephants this long ago.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct NotedImbalance {
    pub age_ms: u64,
    pub mean_fim_percent: f64,
    /// Of the links over which flows were spread most unevenly.
    pub worst: Imbalance,
}

/// Links between switches so far from the hosts, in this direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LayerImbalance {
    pub from_tier: u32,
    pub to_tier: u32,
    /// Whether switches chose among these links; if not, they lead to who chose before.
    pub is_chosen: bool,
    pub groups: usize,
    pub mean_fim_percent: f64,
    /// Of the group with the largest FIM.
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

/// The links of one switch that stand for one another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct GroupImbalance {
    pub from_tier: u32,
    pub to_tier: u32,
    pub is_chosen: bool,
    pub over: Vec<Hop>,
    pub imbalance: Imbalance,
}
