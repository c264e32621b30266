//! What is measured of the network as a whole.

use serde::{Deserialize, Serialize};

use super::place::Hop;
use crate::finding::Imbalance;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Absent when none was measured lately.
    pub round_trips: Option<RoundTrips>,
    /// Absent when no elephant goes where there is a choice.
    pub flow_imbalance: Option<FlowImbalance>,
}

/// Between hosts that exchange much.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundTrips {
    /// Pairs of hosts, each way by itself.
    pub pairs: usize,
    pub median_us: u64,
    /// A few, the slowest first.
    pub slowest: Vec<RoundTrip>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundTrip {
    pub from: String,
    pub to: String,
    pub rtt_us: u64,
}

/// Over all switches that have a choice of links for elephants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowImbalance {
    pub mean_fim_percent: f64,
    /// The links over which flows are spread most unevenly.
    pub worst_over: Vec<Hop>,
    pub worst: Imbalance,
}
