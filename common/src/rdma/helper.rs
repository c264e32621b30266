//! The protocol of an agent and its RDMA helper: a line of JSON each, one answer for each request.
//!
//! The helper is a separate program, since a program that is linked with the RDMA libraries does not start without
//! them, and the agent has to start everywhere.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use super::{RdmaPort, RdmaReading, Transport};
use crate::units::Bytes;

/// No line of either is longer.
pub const MAX_LINE_BYTES: usize = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Which ports there are.
    Ports,
    /// Answer these hosts from now on, and no others; in place of those named before.
    Serve { roster: Vec<Ipv4Addr> },
    /// Send this many messages to a host, one after the other, each of which comes back.
    Latency {
        peer: Ipv4Addr,
        transport: Transport,
        count: u32,
    },
    /// Write this much into the memory of a host.
    Bandwidth { peer: Ipv4Addr, budget: Bytes },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Ports(Vec<RdmaPort>),
    Serving,
    Measured(RdmaReading),
    /// Nothing came of it.
    Failed {
        #[serde(deserialize_with = "crate::printable::text")]
        because: String,
    },
}
