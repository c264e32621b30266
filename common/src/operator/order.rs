//! Requests of orchestrators about jobs, and the answers about hosts and routes.

use serde::{Deserialize, Serialize};

use crate::plan::Generation;
use crate::units::Rate;

/// A request about one job. A repeated request changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobOrder {
    /// Registers the job on these hosts in rank order, or in the best order if reordering is allowed. A repeated
    /// request confirms that the job still runs.
    Register {
        hosts: Vec<String>,
        may_reorder: bool,
    },
    /// Announces the next traffic phase: each host sends at this rate to the next, around a ring.
    Phase {
        name: String,
        ring_bits_per_s: Option<Rate>,
    },
    /// Plans, checks and applies better routes for the job, within the policy; or changes nothing for it.
    Start { may_change: bool },
    /// Ends the job: predictions and freezes for it end.
    End,
}

/// A registered job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RegisteredJob {
    pub job: String,
    /// In rank order.
    pub hosts: Vec<String>,
    /// Member that registered it.
    pub by: String,
    pub age_ms: u64,
    /// Time since the last request about it, or since its hosts last exchanged large flows.
    pub silent_ms: u64,
    pub phase: Option<JobPhase>,
}

/// Announced traffic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobPhase {
    pub name: String,
    /// Rate from each host to the next.
    pub ring_bits_per_s: Option<Rate>,
    pub age_ms: u64,
}

/// Whether hosts are fit for a job, and their best order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Allocation {
    /// No problem was found.
    pub is_good: bool,
    pub against: Vec<String>,
    /// Best rank order; of a registered job, the order of its first registration.
    pub order: Vec<String>,
    /// Hosts at the same switches: they reduce among themselves first.
    pub groups: Vec<Vec<String>>,
    /// Rate from each host to the next around a ring, in the listed and in the best order; absent for a single host.
    pub ring_bits_per_s: Option<[Rate; 2]>,
}

/// Result of the start of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StartedJob {
    pub allocation: Allocation,
    /// Change that is in progress for the job.
    pub generation: Option<Generation>,
    /// Reason why nothing is changed.
    pub because: Option<String>,
}
