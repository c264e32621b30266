//! What was changed, by whom, and what came of it.

use reweave_common::flow::FlowKey;
use reweave_common::plan::Generation;
use reweave_common::units::Rate;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub generation: Generation,
    pub parent: Generation,
    /// Since it began.
    pub age_ms: u64,
    /// The operator who asked for it, or the policy that did.
    pub principal: String,
    pub outcome: Outcome,
    pub flows: Vec<FlowOutcome>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Running,
    Committed,
    /// The old routes are back, under a generation of their own.
    RolledBack {
        reason: String,
        generation: Generation,
    },
    /// It ended before anything was changed.
    Abandoned {
        reason: String,
    },
    /// Neither the new nor the old routes are known to be whole: a person must look.
    Held {
        reason: String,
    },
}

/// What a flow of the plan was promised and what it got; absent when it was not seen afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowOutcome {
    pub flow: FlowKey,
    pub before_bits_per_s: Rate,
    pub predicted_bits_per_s: Rate,
    pub measured_bits_per_s: Option<Rate>,
}
