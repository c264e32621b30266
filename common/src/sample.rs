//! An agent's measurements: the value that goes from `measure` to `ingest`.

use serde::{Deserialize, Serialize};
use std::net::Ipv4Addr;

use crate::bandwidth::BandwidthReading;
use crate::collective::RankReading;
use crate::flow::FlowKey;
use crate::forwarding_state::ForwardingState;
use crate::hardware::{HardwareAddress, Lack, Machine, Neighbour, NicReport};
use crate::health::Health;
use crate::moment::Moment;
use crate::pci::NicPlace;
use crate::periodicity::Periodicity;
use crate::plan::Generation;
use crate::probing::{PortStrays, ProbeReading};
use crate::rdma::{RdmaPort, RdmaReading};
use crate::time_span::TimeSpan;
use crate::traffic::Traffic;
use crate::units::{Bytes, Rate};

/// One agent's full report at one moment of its own clock. Its certificate identifies the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    pub taken: Moment,
    pub readings: Vec<Reading>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    Interface(Interface),
    Counters(Counters),
    Flow(FlowReading),
    /// The flow has closed; there are no further reports of it.
    FlowEnded(FlowKey),
    /// Boxed, because it is large and readings should stay small.
    Probes(Box<ProbeReading>),
    Path(TracedPath),
    /// State of the kernel under Reweave's protocol number, as read back.
    Holds {
        generation: Generation,
        holding: ForwardingState,
    },
    Host(HostReading),
    Bandwidth(BandwidthReading),
}

/// A host's report about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostReading {
    Health(Health),
    Nic(Box<NicReport>),
    Machine(Machine),
    Neighbour(Box<Neighbour>),
    /// An interface that no longer exists.
    Vanished {
        #[serde(deserialize_with = "crate::printable::text")]
        interface: String,
        seen: Moment,
    },
    Rhythm(Periodicity),
    Traffic(Traffic),
    Spare(Spare),
    RdmaPort(Box<RdmaPort>),
    /// Result of an RDMA measurement to another host.
    Rdma(Box<RdmaReading>),
    /// A measurement that is not available.
    Lack(Lack),
    Strays(PortStrays),
    /// Report of a job's own library.
    Rank(Box<RankReading>),
    Hardware(HardwareAddress),
    // What came with 1.2 follows.
    NicPlace(Box<NicPlace>),
}

/// Free capacity of an interface, from its speed and its counters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spare {
    #[serde(deserialize_with = "crate::printable::text")]
    pub interface: String,
    #[serde(rename = "capacity_bits_per_s")]
    pub capacity: Rate,
    #[serde(rename = "send_bits_per_s")]
    pub send: Rate,
    #[serde(rename = "receive_bits_per_s")]
    pub receive: Rate,
}

/// Configuration of an interface, and its known neighbour.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    #[serde(deserialize_with = "crate::printable::text")]
    pub name: String,
    pub addresses: Vec<Ipv4Addr>,
    /// Next hops of routes over this interface.
    pub gateways: Vec<Ipv4Addr>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    #[serde(deserialize_with = "crate::printable::text")]
    pub interface: String,
    pub up: bool,
    pub sent: Bytes,
    pub received: Bytes,
    pub dropped_packets: u64,
    /// Rate since the previous reading; absent in the first.
    pub send_rate: Option<Rate>,
    pub receive_rate: Option<Rate>,
}

/// The state of a flow that this host sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowReading {
    pub flow: FlowKey,
    /// Bytes acknowledged since the flow began; for datagrams, bytes sent with headers.
    pub bytes: Bytes,
    /// Rate since the previous reading, while the flow was sending; absent if it was idle.
    pub rate: Option<Rate>,
    /// Absent for datagrams.
    pub rtt: Option<TimeSpan>,
    pub retransmits: Option<u64>,
}

/// Routers that answered for a flow, in order; an absent one did not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracedPath {
    pub flow: FlowKey,
    pub routers: Vec<Option<Ipv4Addr>>,
    /// The receiver's agent has seen packets of this flow that passed this number of routers. Otherwise the number is
    /// known only from other packets.
    pub confirmed: bool,
}

/// A pin in a switch: this flow leaves by that interface to that next hop.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PinRule {
    pub flow: FlowKey,
    #[serde(deserialize_with = "crate::printable::text")]
    pub interface: String,
    pub next_hop: Ipv4Addr,
}
