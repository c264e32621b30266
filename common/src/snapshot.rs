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
    /// The generation of routes that was in force.
    pub generation: Generation,
    pub fabric: Arc<Fabric>,
    /// Only directions that were measured recently enough are here.
    pub links: BTreeMap<Hop, LinkState>,
    /// The share of packets that a link loses, where that was looked for and found.
    pub lossy: BTreeMap<LinkId, f64>,
    /// Links over which switches are instructed to send nothing.
    pub drained: BTreeSet<LinkId>,
    pub flows: Vec<FlowState>,
    /// All pins in force.
    pub pins: Vec<Pin>,
    /// Nodes that can hold no pins, as their agents report.
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
    /// What its hosts each exchange in an iteration, as far as their traffic has an iteration period.
    pub exchanged: BTreeMap<NodeId, Bytes>,
    /// What each of its flows carries, over all of an iteration.
    pub flows: BTreeMap<FlowKey, Rate>,
    /// How long an iteration takes.
    pub period: TimeSpan,
    /// How much of that the wires rest.
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
    /// While sending; the mean of the recent readings, between the least and the most of them.
    pub rate: Rate,
    pub rate_range: [Rate; 2],
    /// Every hop from sender to receiver, or nothing when one of them is not known.
    pub path: Option<Vec<Hop>>,
    pub age: Duration,
}
