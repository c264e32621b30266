//! Jobs that orchestrators registered, as the log has them.

use reweave_common::ids::NodeId;
use reweave_common::moment::Moment;
use reweave_common::units::Rate;
use serde::{Deserialize, Serialize};

use crate::log::command::Author;

/// A registered job, as the log has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    /// The hosts in the order of the job's ranks.
    pub hosts: Vec<NodeId>,
    /// The order that was first returned. Later requests get the same one: with another order, two ranks could get one
    /// number.
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
    /// The announced rate from each host to the next one of the ring.
    pub ring: Option<Rate>,
    pub since: Moment,
}
