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

/// A period in which a flow sent without a pause visible in the history.
#[derive(Debug, Clone, PartialEq)]
pub struct Burst {
    pub node: String,
    /// Receiver, if it is known.
    pub to_node: Option<String>,
    pub flow: FlowKey,
    pub at: Moment,
    /// Duration of the burst.
    pub sending: Duration,
    pub bytes: u64,
    /// Names of the forwarding nodes, starting with the sender, if the path is known.
    pub hops: Option<Vec<String>>,
    /// The flow did not pause since its previous burst, but changed its path.
    pub goes_on: bool,
}

/// Source of a host's traffic counts, from the best to the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrafficSource {
    /// An eBPF program that counts every packet with all headers.
    Ebpf,
    /// Counters of nftables: every packet, from its IP header on.
    Nftables,
    /// Reports of TCP sockets: no headers, no retransmissions, no UDP.
    Sockets,
}

/// Traffic of a host by peer, since the start of its agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    pub source: TrafficSource,
    /// Packets of an unknown flow: not IPv4, or too many flows at once.
    pub unknown_packets: u64,
    pub peers: Vec<PeerTraffic>,
    /// Counters of RDMA ports. No other source sees their traffic, which bypasses the kernel.
    pub rdma: Vec<PortTraffic>,
}

/// Traffic of an RDMA port, since the reset of its NIC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortTraffic {
    #[serde(deserialize_with = "crate::printable::text")]
    pub device: String,
    pub port: u8,
    pub sent: PortVolume,
    pub received: PortVolume,
}

/// Absent values are not counted by the NIC.
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
    /// Absent if the source does not count packets.
    pub packets: Option<u64>,
}

impl Volume {
    /// Adds with saturation, because hosts may report any number.
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
