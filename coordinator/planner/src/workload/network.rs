//! A fabric as a job sees it: lanes, and the ways of its traffic over them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use reweave_common::carriage::Carriage;
use reweave_common::fabric::Fabric;
use reweave_common::ids::{LinkId, NodeId, Rank};
use reweave_common::units::Rate;

use super::ways::Distances;

/// How payload is packed: every packet carries a header besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packets {
    pub bytes: u32,
    pub payload_bytes: u32,
}

impl Packets {
    /// Jumbo frames with the headers of IP and TCP.
    pub const JUMBO: Self = Self {
        bytes: 9000,
        payload_bytes: 8936,
    };

    /// What goes over a wire for `payload` bytes, in bits.
    pub(super) fn bits(self, payload_bytes: f64) -> f64 {
        payload_bytes * 8.0 * f64::from(self.bytes) / f64::from(self.payload_bytes)
    }
}

/// How the steps of a ring are simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steps {
    /// As one flow from each member to the next. Exact where a collective has its lanes to itself.
    Collapsed,
    /// Each by itself; a step begins when the one before has ended everywhere.
    Each,
}

/// How traffic spreads where there are several ways of the same length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spreading {
    /// Evenly over all of them, as packets do that are sprayed.
    Even,
    /// All traffic of a pair takes one way, by a hash over the pair and this seed.
    Hashed { seed: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    pub packets: Packets,
    pub steps: Steps,
    pub spreading: Spreading,
    /// What a rank can send to the others on its host, and receive; no limit where there is none.
    pub inside: Option<Rate>,
    /// What it costs to begin to send, each time: a cold start.
    pub start: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            packets: Packets::JUMBO,
            steps: Steps::Collapsed,
            spreading: Spreading::Even,
            inside: None,
            start: Duration::ZERO,
        }
    }
}

/// Why a job cannot send over a fabric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkError {
    TooFewPlaces { ranks: usize, places: usize },
    NoWay { from: String, to: String },
    NotLinked { from: String, to: String },
    BadRing { problem: &'static str },
}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFewPlaces { ranks, places } => {
                write!(
                    f,
                    "the job has {ranks} ranks, and there are places for {places}"
                )
            }
            Self::NoWay { from, to } => write!(f, "there is no way from {from} to {to}"),
            Self::NotLinked { from, to } => {
                write!(
                    f,
                    "a given way goes from {from} to {to}, which no link joins"
                )
            }
            Self::BadRing { problem } => write!(f, "a given ring {problem}"),
        }
    }
}

impl std::error::Error for NetworkError {}

/// A directed stretch that flows share: one direction of a link, or of all parallel links of a pair
/// of nodes where traffic spreads evenly; or the inside of a host.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Lane {
    pub(super) rate: Rate,
    pub(super) latency: Duration,
    pub(super) kind: LaneKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LaneKind {
    Cable {
        links: Vec<LinkId>,
        from: NodeId,
        to: NodeId,
    },
    Inside {
        rank: Rank,
    },
}

/// One of the ways of some traffic: its lanes, and the share that goes there.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Way {
    pub(super) lanes: Vec<u32>,
    pub(super) share: f64,
    pub(super) latency: Duration,
}

/// Where each rank of a job runs, and how its traffic gets from there to the others.
#[derive(Debug)]
pub struct Network<'n> {
    pub(super) fabric: &'n Fabric,
    pub(super) settings: Settings,
    placement: &'n [NodeId],
    pub(super) carriage: &'n Carriage,
    pub(super) lanes: Vec<Lane>,
    /// The lanes from one node to a neighbour.
    pub(super) joined: BTreeMap<(NodeId, NodeId), Vec<u32>>,
    /// Where the lanes inside hosts begin, two for each rank: out and in.
    pub(super) inside_lanes: Option<u32>,
    pub(super) distances: RefCell<Distances>,
}

impl<'n> Network<'n> {
    /// `placement` names a host for each rank.
    pub fn new(
        fabric: &'n Fabric,
        placement: &'n [NodeId],
        carriage: &'n Carriage,
        settings: Settings,
    ) -> Self {
        let mut network = Self {
            fabric,
            settings,
            placement,
            carriage,
            lanes: Vec::new(),
            joined: BTreeMap::new(),
            inside_lanes: None,
            distances: RefCell::default(),
        };
        for (id, link) in fabric.links() {
            let [a, b] = link.ports().map(|port| port.node);
            network.add_cable(id, a, b);
            network.add_cable(id, b, a);
        }
        if let Some(rate) = settings.inside {
            network.add_insides(rate);
        }
        network
    }

    pub fn places(&self) -> usize {
        self.placement.len()
    }

    pub fn host(&self, rank: Rank) -> NodeId {
        self.placement[rank.index()]
    }

    fn add_insides(&mut self, rate: Rate) {
        self.inside_lanes = Some(self.lanes.len() as u32);
        let ranks = (0..self.placement.len()).map(Rank::from_index);
        let lanes = ranks.flat_map(|rank| {
            let kind = LaneKind::Inside { rank };
            [0, 1].map(|_| Lane {
                rate,
                latency: Duration::ZERO,
                kind: kind.clone(),
            })
        });
        self.lanes.extend(lanes);
    }

    fn add_cable(&mut self, id: LinkId, from: NodeId, to: NodeId) {
        let link = self.fabric.link(id);
        let lanes = self.joined.entry((from, to)).or_default();
        let bundle = match self.settings.spreading {
            Spreading::Even => lanes.first(),
            Spreading::Hashed { .. } => None,
        };
        if let Some(&bundle) = bundle {
            let lane = &mut self.lanes[bundle as usize];
            let rate = lane.rate.bits_per_s() + link.rate.bits_per_s();
            lane.rate = Rate::from_bits_per_s(rate);
            lane.latency = lane.latency.max(link.latency);
            if let LaneKind::Cable { links, .. } = &mut lane.kind {
                links.push(id);
            }
            return;
        }
        lanes.push(self.lanes.len() as u32);
        self.lanes.push(Lane {
            rate: link.rate,
            latency: link.latency,
            kind: LaneKind::Cable {
                links: vec![id],
                from,
                to,
            },
        });
    }
}
