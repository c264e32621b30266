//! The cluster at one moment, immutable: the value that `diagnose` and `plan` read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::fabric::{Circuits, Fabric};
use crate::flow::FlowKey;
use crate::ids::{LinkId, NodeId};
use crate::migration_plan::Tables;
use crate::plan::{Generation, Pin};
use crate::time_span::TimeSpan;
use crate::units::{Bytes, Rate};

/// One direction of a link: over `link`, away from `from`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Hop {
    pub from: NodeId,
    pub link: LinkId,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// Generation of the routes in force.
    pub generation: Generation,
    pub fabric: Arc<Fabric>,
    /// Only directions with recent measurements.
    pub links: BTreeMap<Hop, LinkState>,
    /// Measured loss of links, as a share of packets.
    pub lossy: BTreeMap<LinkId, f64>,
    /// Links over which switches must not send.
    pub drained: BTreeSet<LinkId>,
    pub flows: Vec<FlowState>,
    /// All pins in force.
    pub pins: Vec<Pin>,
    /// Nodes that cannot hold pins, as their agents report.
    pub unpinnable: BTreeSet<NodeId>,
    /// All forwarding tables in force, and all circuits.
    pub tables: Tables,
    pub circuits: Circuits,
    /// Jobs whose traffic has an iteration period.
    pub beating: Vec<PeriodicJob>,
}

/// A job with periodic traffic.
#[derive(Debug, Clone, PartialEq)]
pub struct PeriodicJob {
    pub job: String,
    /// Bytes that each host with periodic traffic exchanges in an iteration.
    pub exchanged: BTreeMap<NodeId, Bytes>,
    /// Mean rate of each flow over a whole iteration.
    pub flows: BTreeMap<FlowKey, Rate>,
    /// Iteration time.
    pub period: TimeSpan,
    /// Part of it without traffic.
    pub gap: TimeSpan,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkState {
    pub up: bool,
    pub rate: Rate,
    pub age: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowState {
    pub flow: FlowKey,
    pub from: NodeId,
    pub to: NodeId,
    /// The link of the NIC to which it is addressed. None if the fabric declares no NICs, or the NIC is unknown.
    pub nic: Option<LinkId>,
    /// Rate while sending: the mean of recent readings, with their minimum and maximum.
    pub rate: Rate,
    pub rate_range: [Rate; 2],
    /// Every hop from sender to receiver, or none if one is unknown.
    pub path: Option<Vec<Hop>>,
    pub age: Duration,
}
