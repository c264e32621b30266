//! Traffic of flows, and of pairs of hosts.

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::flow::FlowKey;
use crate::ids::NodeId;
use crate::moment::Moment;
use crate::units::Bytes;

/// What a flow sent from one moment on without a pause that the history shows.
#[derive(Debug, Clone, PartialEq)]
pub struct Burst {
    pub node: String,
    /// The receiver, where it is known.
    pub to_node: Option<String>,
    pub flow: FlowKey,
    pub at: Moment,
    /// How long it was sending.
    pub sending: Duration,
    pub bytes: u64,
    /// The names of the nodes that sent it on, its sender first, where its way is known.
    pub hops: Option<Vec<String>>,
    /// The flow did not pause since the burst of its own before this one: it went on over another way.
    pub goes_on: bool,
}

/// The source of a host's traffic counts, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrafficSource {
    /// A program in the kernel that counts every packet, headers and all.
    Ebpf,
    /// Counters of nftables: every packet, from its IP header on.
    Nftables,
    /// What TCP sockets report: no headers, no retransmissions, no UDP.
    Sockets,
}

/// A host's traffic by peer since its agent began to count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    pub source: TrafficSource,
    /// Packets whose flow is unknown: not IPv4, or too many flows at once.
    pub unknown_packets: u64,
    pub peers: Vec<PeerTraffic>,
    /// What RDMA ports count themselves; what their NICs send past the kernel no other source sees.
    pub rdma: Vec<PortTraffic>,
}

/// An RDMA port's traffic since its NIC began to count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortTraffic {
    #[serde(deserialize_with = "crate::printable::text")]
    pub device: String,
    pub port: u8,
    pub sent: PortVolume,
    pub received: PortVolume,
}

/// Each absent where the NIC does not count it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortVolume {
    pub bytes: Option<Bytes>,
    pub packets: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerTraffic {
    pub peer: Ipv4Addr,
    pub sent: Volume,
    pub received: Volume,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    pub bytes: Bytes,
    /// Absent where the source does not count them.
    pub packets: Option<u64>,
}

impl Volume {
    /// The most that can be counted where the sum would be more: hosts say what they like.
    pub fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        if let Some(packets) = other.packets {
            let sum = self.packets.get_or_insert_default();
            *sum = sum.saturating_add(packets);
        }
    }
}

impl fmt::Display for TrafficSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ebpf => "eBPF",
            Self::Nftables => "nftables",
            Self::Sockets => "sockets",
        })
    }
}

/// Bytes per ordered pair of endpoints. Pairs without traffic are absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrafficMatrix {
    bytes: BTreeMap<(NodeId, NodeId), Bytes>,
}

impl TrafficMatrix {
    pub fn add(&mut self, from: NodeId, to: NodeId, bytes: Bytes) {
        if bytes > Bytes::ZERO {
            *self.bytes.entry((from, to)).or_default() += bytes;
        }
    }

    pub fn get(&self, from: NodeId, to: NodeId) -> Bytes {
        self.bytes.get(&(from, to)).copied().unwrap_or_default()
    }

    pub fn pairs(&self) -> impl ExactSizeIterator<Item = (NodeId, NodeId, Bytes)> {
        self.bytes
            .iter()
            .map(|(&(from, to), &bytes)| (from, to, bytes))
    }

    pub fn total(&self) -> Bytes {
        self.bytes.values().copied().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volume_sum_stops_at_most() {
        let most = Volume {
            bytes: Bytes::new(u64::MAX),
            packets: Some(u64::MAX),
        };
        let mut sum = Volume::default();
        sum.add(Volume::default());
        assert_eq!(sum.packets, None, "not counted");
        for _ in 0..2 {
            sum.add(most);
            assert_eq!(sum, most);
        }
    }
}
