//! Jobs that orchestrators registered, as the log has them.

use reweave_common::ids::NodeId;
use reweave_common::moment::Moment;
use reweave_common::units::Rate;
use serde::{Deserialize, Serialize};

use crate::log::command::Author;

/// A registered job, as the log has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    /// In the order of its ranks.
    pub hosts: Vec<NodeId>,
    /// The best, as it was answered first: a later question gets no other, or two ranks would have one number.
    pub order: Option<Vec<NodeId>>,
    pub by: Author,
    pub since: Moment,
    pub phase: Option<Phase>,
}

/// The announced traffic of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "JobPhase")]
pub struct Phase {
    pub name: String,
    /// From each host to the next.
    pub ring: Option<Rate>,
    pub since: Moment,
}
