//! What is measured of the network as a whole.

use serde::{Deserialize, Serialize};

use super::place::Hop;
use crate::finding::Imbalance;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Absent when no elephant goes where there is a choice.
    pub flow_imbalance: Option<FlowImbalance>,
}

/// Over all switches that have a choice of links for elephants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowImbalance {
    pub mean_fim_percent: f64,
    /// The links over which flows are spread most unevenly.
    pub worst_over: Vec<Hop>,
    pub worst: Imbalance,
}
