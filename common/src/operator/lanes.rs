//! The RDMA devices and paths of a job's ranks.

use serde::{Deserialize, Serialize};

/// The RDMA devices that each of a job's hosts has at a link that carries traffic, and why others are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lanes {
    pub lanes: Vec<Lane>,
    pub left_out: Vec<String>,
}

/// One device of each host, by the name that all of them have for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    pub device: String,
    /// Of equal length, from one host to the next in the order of the hosts; where most are, and this many at most.
    pub ways: u32,
}
