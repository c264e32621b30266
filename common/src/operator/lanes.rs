//! RDMA devices and paths of a job's ranks.

use serde::{Deserialize, Serialize};

/// RDMA devices that each host of a job has at a working link, and reasons why others are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lanes {
    pub lanes: Vec<Lane>,
    pub left_out: Vec<String>,
}

/// One device per host, which has the same name on all hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    pub device: String,
    /// Number of shortest paths from one host to the next in the order of the hosts: the maximum over these pairs, up
    /// to a limit.
    pub ways: u32,
}
