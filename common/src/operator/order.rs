//! Orchestrators' requests about jobs, and the answers about hosts and routes.

use serde::{Deserialize, Serialize};

use crate::plan::Generation;
use crate::units::Rate;

/// An order about one job. Orders may be repeated, and then change nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobOrder {
    /// It works on these hosts, in the order of its ranks; or in the best one, where these may be reordered. Repeated,
    /// it says that the job still runs.
    Register {
        hosts: Vec<String>,
        may_reorder: bool,
    },
    /// Another phase of its traffic: from now on each host sends so much to the next, around a ring.
    Phase {
        name: String,
        ring_bits_per_s: Option<Rate>,
    },
    /// What repairs its ways is planned, checked and carried out, as far as the policy lets it; or nothing is changed
    /// for it.
    Start { may_change: bool },
    /// It is over: what was held for it is let go.
    End,
}

/// A registered job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RegisteredJob {
    pub job: String,
    /// In the order of its ranks.
    pub hosts: Vec<String>,
    /// Who registered it.
    pub by: String,
    pub age_ms: u64,
    /// Since the last order about it, or since its hosts had sessions with each other that sent much.
    pub silent_ms: u64,
    pub phase: Option<JobPhase>,
}

/// Announced traffic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobPhase {
    pub name: String,
    /// From each host to the next.
    pub ring_bits_per_s: Option<Rate>,
    pub age_ms: u64,
}

/// Whether hosts are good for a job, and in which order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Allocation {
    /// Nothing speaks against it.
    pub is_good: bool,
    pub against: Vec<String>,
    /// The order in which ranks follow each other best; of a registered job, the order that it registered first.
    pub order: Vec<String>,
    /// Those that hang on the same switches: they reduce among themselves first.
    pub groups: Vec<Vec<String>>,
    /// What each can send to the next around a ring, as they were listed and in this order; nothing for one
    /// host alone.
    pub ring_bits_per_s: Option<[Rate; 2]>,
}

/// What the start of a job has led to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct StartedJob {
    pub allocation: Allocation,
    /// The change that is being carried out for it.
    pub generation: Option<Generation>,
    /// Why nothing is changed.
    pub because: Option<String>,
}
