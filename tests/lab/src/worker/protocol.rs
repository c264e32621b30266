//! The protocol between the lab and a rank's process: one JSON value per line.
//!
//! The lab writes an [`Assignment`] and then [`Order`]s; the rank answers with [`Event`]s.

use std::net::SocketAddrV4;

use reweave_common::ids::Rank;
use reweave_common::scenario;
use reweave_common::workload::Program;
use serde::{Deserialize, Serialize};

/// Parameters of a rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Assignment {
    pub(crate) rank: Rank,
    /// One iteration.
    pub(crate) program: Program,
    pub(crate) iterations: u32,
    pub(crate) transport: Transport,
    /// Every flow that this rank sends or receives.
    pub(crate) flows: Vec<FlowSpec>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Transport {
    Tcp,
    Udp,
    Quic,
}

impl From<scenario::Transport> for Transport {
    fn from(transport: scenario::Transport) -> Self {
        match transport {
            scenario::Transport::Tcp => Self::Tcp,
            scenario::Transport::Udp4791 => Self::Udp,
            scenario::Transport::Quic => Self::Quic,
        }
    }
}

/// One flow of a pair of ranks: the `nth` of those that share the data from `from` to `to`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FlowSpec {
    pub(crate) id: u32,
    pub(crate) from: Rank,
    pub(crate) to: Rank,
    pub(crate) nth: u32,
    pub(crate) source: SocketAddrV4,
    pub(crate) destination: SocketAddrV4,
    /// The network lets so much pass at once after a pause, faster than its links are.
    pub(crate) burst_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Order {
    /// Open all connections: every rank listens by now.
    Connect,
    /// Begin the first iteration.
    Start,
    /// Report at once and send nothing more.
    Stop,
}

/// Times are microseconds of the machine's monotonic clock, which all ranks share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Event {
    Listening,
    Connected,
    /// Several times a second: what each incoming flow has brought so far.
    Sample {
        at_us: u64,
        flows: Vec<FlowBytes>,
    },
    Iteration {
        index: u32,
        duration_us: u64,
        exposed_us: u64,
    },
    /// The last word of a rank, whether it completed, was stopped, or lost a session.
    Report(RankReport),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FlowBytes {
    pub(crate) id: u32,
    pub(crate) bytes_received: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct RankReport {
    pub(crate) sent: Vec<FlowReport>,
    pub(crate) received: Vec<FlowReport>,
    /// The flow that broke, and how.
    pub(crate) broken: Option<String>,
    pub(crate) stopped: bool,
}

/// One end's view of a flow. What this end cannot know is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct FlowReport {
    pub(crate) id: u32,
    pub(crate) bytes: u64,
    /// Time with a message in flight.
    pub(crate) busy_us: u64,
    /// Rate of the network, as seen by the receiver.
    pub(crate) rate_bits_per_s: Option<u64>,
    /// Longest time without progress while a message was in flight.
    pub(crate) longest_stall_us: u64,
    pub(crate) resets: u64,
    pub(crate) retransmits: Option<u64>,
    pub(crate) lost: Option<u64>,
    pub(crate) reordered: Option<u64>,
    pub(crate) rtt_us: Option<u64>,
    /// Bytes of the payload that were not what was sent.
    pub(crate) corrupted: u64,
}

impl FlowSpec {
    pub(crate) fn sender(&self) -> Rank {
        self.from
    }

    pub(crate) fn receiver(&self) -> Rank {
        self.to
    }
}

impl Order {
    pub(crate) fn to_line(self) -> String {
        serde_json::to_string(&self).expect("an order is plain data")
    }
}
