//! The change history: what was changed, by whom, with which result.

use serde::{Deserialize, Serialize};

use super::plan::Plan;
use crate::flow::FlowKey;
use crate::plan::Generation;
use crate::units::Rate;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Record {
    pub plan: Plan,
    pub proposed_by: String,
    /// Absent if it was never approved.
    pub approved_by: Option<String>,
    /// Age of the proposal, and time since the end.
    pub age_ms: u64,
    pub ended_age_ms: Option<u64>,
    pub outcome: Outcome,
    /// Flows of the plan, and other flows that became slower.
    pub flows: Vec<FlowOutcome>,
    /// Jobs with a known iteration period.
    pub iterations: Vec<IterationOutcome>,
}

/// Iteration time of a job: before the change, predicted, and measured after it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct IterationOutcome {
    pub job: String,
    pub before_ms: f64,
    /// Lower and upper bound.
    pub predicted_ms: [f64; 2],
    /// Absent if no iteration period was detected in time.
    pub measured_ms: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Not approved yet.
    Offered,
    Running,
    Committed,
    /// The old routes are in force again, under a new generation.
    RolledBack {
        reasons: Vec<String>,
        generation: Generation,
    },
    /// Ended before anything was changed.
    Abandoned {
        reasons: Vec<String>,
    },
    /// It is unknown whether the new or the old routes are complete: an operator must look.
    Held {
        reasons: Vec<String>,
    },
}

impl Outcome {
    /// Whether the change is not over yet.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Offered | Self::Running)
    }
}

/// Rate of a flow: before the change, predicted, and measured after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FlowOutcome {
    pub flow: FlowKey,
    pub before_bits_per_s: Option<Rate>,
    /// Lower and upper bound; absent if nothing was predicted for the flow.
    pub predicted_bits_per_s: Option<[Rate; 2]>,
    /// Absent if the flow was not seen after the change.
    pub measured_bits_per_s: Option<Rate>,
    pub change: FlowChange,
}

/// Effect on a flow, from readings before and after the change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FlowChange {
    Faster,
    /// Within its earlier variation.
    Same,
    Slower,
    /// It existed before, and has no readings after the change.
    Vanished,
    /// It did not exist before.
    New,
}
