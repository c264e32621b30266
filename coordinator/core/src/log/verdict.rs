//! The verdict on an applied plan, as the log has it.

use reweave_common::flow::FlowKey;
use reweave_common::operator::FlowChange;
use reweave_common::time_span::TimeSpan;
use reweave_common::units::Rate;
use serde::{Deserialize, Serialize};

use crate::log::rate_summary::RateSummary;
use crate::log::reason::Reason;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    pub decision: Decision,
    pub flows: Vec<Judged>,
    pub iterations: Vec<JudgedIteration>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    Commit,
    RollBack { reasons: Vec<Reason> },
}

/// A flow before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judged {
    pub flow: FlowKey,
    pub before: Option<RateSummary>,
    /// The lower and the upper bound of the prediction.
    pub predicted: Option<[Rate; 2]>,
    pub after: Option<RateSummary>,
    pub change: FlowChange,
}

/// Iterations of a job before and after.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgedIteration {
    pub job: String,
    pub before: TimeSpan,
    /// The lower and the upper bound of the prediction.
    pub predicted: [TimeSpan; 2],
    /// None if no iteration period was detected in time.
    pub after: Option<TimeSpan>,
}
