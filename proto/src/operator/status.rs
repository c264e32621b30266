//! How the cluster is doing. Ages are counted back from the moment of the answer, since the
//! coordinator's clock means nothing elsewhere.

use reweave_common::plan::Generation;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub cluster: String,
    /// Of the routes that are in force.
    pub generation: Generation,
    /// One for each node of the fabric, in its order.
    pub agents: Vec<AgentStatus>,
    pub change: Option<RunningChange>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentStatus {
    pub node: String,
    pub state: AgentState,
    /// Since it last reported; absent when it never did.
    pub age_ms: Option<u64>,
    /// What its kernel holds, as it last read it back; absent for one that holds none.
    pub generation: Option<Generation>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentState {
    /// It reports.
    Up,
    /// Its session stands, but it has been silent for too long to be believed.
    Silent,
    /// It was here and is gone.
    Down,
    /// It has not been here since the coordinator started.
    Unseen,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningChange {
    pub generation: Generation,
    pub parent: Generation,
    pub phase: Phase,
    /// Nodes that have not answered yet.
    pub waiting_for: Vec<String>,
    pub age_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    Applying,
    Verifying,
    RollingBack,
}
