//! The protocol between an agent and its RDMA helper: one line of JSON per request and per answer.
//!
//! The helper is a separate program: a program linked with the RDMA libraries does not start without them, and the
//! agent must start everywhere.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use super::{RdmaPort, RdmaReading, Transport};
use crate::units::Bytes;

/// Maximum length of a line.
pub const MAX_LINE_BYTES: usize = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// List the ports.
    Ports,
    /// Answer exactly these hosts from now on.
    Serve { roster: Vec<Ipv4Addr> },
    /// Send this many messages to a host, one after another; each is returned.
    Latency {
        peer: Ipv4Addr,
        transport: Transport,
        count: u32,
    },
    /// Write this amount into the memory of a host.
    Bandwidth { peer: Ipv4Addr, budget: Bytes },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Ports(Vec<RdmaPort>),
    Serving,
    Measured(RdmaReading),
    /// The measurement failed.
    Failed {
        #[serde(deserialize_with = "crate::printable::text")]
        because: String,
    },
}
