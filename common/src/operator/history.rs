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
    /// Since it was proposed, and since it ended.
    pub age_ms: u64,
    pub ended_age_ms: Option<u64>,
    pub outcome: Outcome,
    /// The flows of the plan, and those that suffered beside them.
    pub flows: Vec<FlowOutcome>,
    /// Jobs with a known iteration period.
    pub iterations: Vec<IterationOutcome>,
}

/// How long a job's iterations took, how long they were to take, and how long they took then.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct IterationOutcome {
    pub job: String,
    pub before_ms: f64,
    /// Least and most.
    pub predicted_ms: [f64; 2],
    /// Absent if no iteration period was detected in time.
    pub measured_ms: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It is not approved yet.
    Offered,
    Running,
    Committed,
    /// The old routes are back, under a generation of their own.
    RolledBack {
        reasons: Vec<String>,
        generation: Generation,
    },
    /// It ended before anything was changed.
    Abandoned {
        reasons: Vec<String>,
    },
    /// Neither the new nor the old routes are known to be whole: a person must look.
    Held {
        reasons: Vec<String>,
    },
}

impl Outcome {
    /// Whether it has not come out yet.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Offered | Self::Running)
    }
}

/// What a flow had, what it was promised and what it got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FlowOutcome {
    pub flow: FlowKey,
    pub before_bits_per_s: Option<Rate>,
    /// Least and most; absent for a flow of which nothing was predicted.
    pub predicted_bits_per_s: Option<[Rate; 2]>,
    /// Absent when it was not seen afterwards.
    pub measured_bits_per_s: Option<Rate>,
    pub change: FlowChange,
}

/// How a flow fared, judged by readings before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FlowChange {
    Faster,
    /// Within what it varied by anyway.
    Same,
    Slower,
    /// It was there before, and there are no readings of it afterwards.
    Vanished,
    /// It was not there before.
    New,
}
