//! How evenly flows are spread.

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
