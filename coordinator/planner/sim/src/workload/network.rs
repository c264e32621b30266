//! A fabric from the view of a job: hosts of its ranks, and paths of its traffic.

use std::cell::{OnceCell, RefCell};
use std::fmt;
use std::rc::Rc;

use reweave_common::explicit_paths::{self, ExplicitPaths};
use reweave_common::fabric::{Fabric, Role};
use reweave_common::ids::{LinkId, NicId, NodeId, Rank};
use reweave_common::units::Rate;
use reweave_repair::paths::ecmp::{Ecmp, Fields, Label};

use super::choice::{Choices, Findings};
use super::effects::Effects;
use super::evaluation;
use super::rank_nics::RankNics;
use crate::engine::network::{self, Compass, Costs, NetworkPath, Part};
use crate::engine::{Outcome, Problem, SimTime};

/// Simulation of the steps of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Steps {
    /// One flow from each member to the next. Exact if a collective has its lanes to itself.
    Collapsed,
    /// Each by itself; a step begins when the one before has ended everywhere.
    Each,
}

/// Spreading of traffic over several shortest paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spreading {
    /// Evenly over all of them, as packets do that are sprayed.
    Even,
    /// All traffic of two ranks takes one path, by the hash of the switches.
    Hashed(Ecmp),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    pub costs: Costs,
    pub steps: Steps,
    pub spreading: Spreading,
    /// Rate of a rank to and from the others on its host; unlimited if absent.
    pub inside: Option<Rate>,
    pub effects: Effects,
    pub choices: Choices,
}

/// Bytes on the wire per byte of payload: jumbo frames with headers of IP and TCP.
pub const WIRE_BYTES_PER_PAYLOAD_BYTE: f64 = 9000.0 / 8936.0;

impl Default for Settings {
    fn default() -> Self {
        Self {
            costs: Costs {
                wire_per_byte: WIRE_BYTES_PER_PAYLOAD_BYTE,
                ..Costs::default()
            },
            steps: Steps::Collapsed,
            spreading: Spreading::Even,
            inside: None,
            effects: Effects::NONE,
            choices: Choices::default(),
        }
    }
}

impl Settings {
    /// Whether it matters which ranks of two hosts exchange something.
    pub(super) fn tells_ranks_apart(&self) -> bool {
        let Effects {
            incast, uplinks, ..
        } = self.effects;
        let waits = incast > SimTime::ZERO || uplinks > SimTime::ZERO;
        waits || self.spreading != Spreading::Even
    }
}

/// Reason why a job cannot send over a fabric.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkError {
    TooFewPlaces { ranks: usize, places: usize },
    NoWay { from: String, to: String },
    NotLinked { from: String, to: String },
    BadRing { problem: &'static str },
    BadForest,
}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFewPlaces { ranks, places } => write!(
                f,
                "the job has {ranks} ranks, and there are places for {places}"
            ),
            Self::NoWay { from, to } => write!(f, "no path from {from} to {to}"),
            Self::NotLinked { from, to } => {
                write!(
                    f,
                    "a given path from {from} to {to} has hops without a link"
                )
            }
            Self::BadRing { problem } => write!(f, "a given ring {problem}"),
            Self::BadForest => f.write_str("given trees do not span their group"),
        }
    }
}

impl std::error::Error for NetworkError {}

/// Maximum number of paths over which traffic is spread.
const MAX_PATHS: usize = 64;

/// Host of each rank of a job, and the paths between ranks.
#[derive(Debug)]
pub struct Network<'n> {
    pub(super) fabric: &'n Fabric,
    pub(super) links: network::Network,
    pub(super) settings: Settings,
    pub(super) carriage: &'n ExplicitPaths,
    placement: &'n [NodeId],
    nics: RankNics,
    compass: RefCell<Compass>,
    pub(super) findings: Rc<Findings>,
    /// Number of messages that wait before each link of the problem, once it is known.
    queues: Rc<OnceCell<Vec<f64>>>,
}

impl<'n> Network<'n> {
    /// `placement` names a host for each rank.
    pub fn new(
        fabric: &'n Fabric,
        placement: &'n [NodeId],
        carriage: &'n ExplicitPaths,
        settings: Settings,
    ) -> Self {
        Self {
            fabric,
            links: network::Network::for_training(fabric, settings.costs.clone()),
            settings,
            carriage,
            placement,
            nics: RankNics::new(fabric, placement),
            compass: RefCell::default(),
            findings: Rc::default(),
            queues: Rc::default(),
        }
    }

    /// The same with other settings. Collectives go as it was decided that they go here, and as
    /// much waits before links as did here.
    pub(super) fn with(&self, settings: Settings) -> Self {
        Self {
            findings: Rc::clone(&self.findings),
            queues: Rc::clone(&self.queues),
            ..Self::new(self.fabric, self.placement, self.carriage, settings)
        }
    }

    pub fn places(&self) -> usize {
        self.placement.len()
    }

    pub fn host(&self, rank: Rank) -> NodeId {
        self.placement[rank.index()]
    }

    /// Whether it matters which rank of a host sends: each has its own NIC.
    pub(super) fn has_nics_of_ranks(&self) -> bool {
        self.nics.are_known()
    }

    /// Whether a message passes no NIC, where ranks have their own. Elsewhere ranks of a host share its ports.
    pub(super) fn passes_no_nic(&self, from: Rank, to: Rank) -> bool {
        self.has_nics_of_ranks() && self.host(from) == self.host(to)
    }

    /// Returns the paths from one rank to another.
    pub(super) fn ways(&self, from: Rank, to: Rank) -> Result<Vec<Part>, NetworkError> {
        let hosts = [from, to].map(|rank| self.host(rank));
        if hosts[0] == hosts[1] {
            return Ok(vec![whole(self.inside(from, to))]);
        }
        let given = self.carriage.ways.get(&hosts.into());
        match given.filter(|ways| !ways.is_empty()) {
            Some(ways) => self.given(ways, [from, to]),
            None => self.shortest([from, to]),
        }
    }

    /// Behind the links of the fabric stand two lanes for each rank: out and in.
    fn inside(&self, from: Rank, to: Rank) -> NetworkPath {
        let mut way = NetworkPath::default();
        if self.settings.inside.is_some() && from != to {
            let first = self.links.capacities().len() as u32;
            let [out, into] = [from, to].map(|rank| first + 2 * rank.index() as u32);
            way.links = vec![out, into + 1];
        }
        way
    }

    fn given(
        &self,
        ways: &[explicit_paths::NodePath],
        pair: [Rank; 2],
    ) -> Result<Vec<Part>, NetworkError> {
        let total: f64 = ways.iter().map(|way| way.weight).sum();
        match self.settings.spreading {
            Spreading::Hashed(ecmp) => {
                let label = self.label(ecmp, pair);
                // Of a thousand points, each path has a share proportional to its weight.
                let point = ecmp.choose(u32::MAX, label, 1000) as f64 / 1000.0 * total;
                let mut passed = 0.0;
                let chosen = ways.iter().find(|way| {
                    passed += way.weight;
                    point < passed
                });
                self.along(&chosen.unwrap_or(&ways[0]).nodes, pair)
            }
            Spreading::Even => {
                let mut parts = Vec::new();
                for way in ways {
                    for part in self.along(&way.nodes, pair)? {
                        parts.push(Part {
                            share: part.share * way.weight / total,
                            ..part
                        });
                    }
                }
                Ok(parts)
            }
        }
    }

    /// Returns the path over these nodes.
    pub(super) fn along(
        &self,
        nodes: &[NodeId],
        pair: [Rank; 2],
    ) -> Result<Vec<Part>, NetworkError> {
        let parts = match self.settings.spreading {
            Spreading::Even => self.links.ways_along(nodes, MAX_PATHS),
            Spreading::Hashed(ecmp) => {
                let way = self.links.along(nodes, &ecmp, self.label(ecmp, pair));
                way.map(whole).into_iter().collect()
            }
        };
        if parts.is_empty() {
            Err(NetworkError::NotLinked {
                from: self.fabric.name(nodes[0]).to_owned(),
                to: self.fabric.name(nodes[nodes.len() - 1]).to_owned(),
            })
        } else {
            Ok(parts)
        }
    }

    /// Returns the shortest paths: from the NICs of one rank to those of the other, or else from host to host.
    fn shortest(&self, pair: [Rank; 2]) -> Result<Vec<Part>, NetworkError> {
        let hosts = pair.map(|rank| self.host(rank));
        let [from, to] = hosts;
        let nics = pair.map(|rank| self.nics.of(rank));
        let lanes = self.fabric.pair_nics(nics[0], nics[1]);
        let mut parts = if lanes.is_empty() {
            self.ways_between(hosts, self.fields(pair))
        } else {
            self.over_nics(&lanes, pair)
        };
        // Their rails do not meet: GPUs hand over inside the host, to those at rails of both hosts.
        if parts.is_empty() && !lanes.is_empty() {
            parts = self.over_nics(&self.fabric.rail_pairs(from, to), pair);
        }
        if parts.is_empty() {
            Err(NetworkError::NoWay {
                from: self.fabric.name(from).to_owned(),
                to: self.fabric.name(to).to_owned(),
            })
        } else {
            Ok(parts)
        }
    }

    /// Returns the paths between pairs of NICs, with as much traffic on each pair that has a path.
    fn over_nics(&self, lanes: &[[NicId; 2]], pair: [Rank; 2]) -> Vec<Part> {
        let of_lanes = lanes.iter().map(|&nics| self.over_lane(nics, pair));
        let connected: Vec<_> = of_lanes.filter(|parts| !parts.is_empty()).collect();
        let count = connected.len() as f64;
        let parts = connected.into_iter().flatten();
        let shared = parts.map(|part| Part {
            share: part.share / count,
            ..part
        });
        shared.collect()
    }

    fn over_lane(&self, nics: [NicId; 2], pair: [Rank; 2]) -> Vec<Part> {
        let [Some(from), Some(to)] = nics.map(|nic| self.fabric.leaf_of(nic)) else {
            return Vec::new();
        };
        let ends = nics.map(|nic| self.fabric.nic(nic));
        let [source, destination] = ends.map(|nic| nic.link.index() as u32);
        let fields = Fields {
            source,
            destination,
            ..self.fields(pair)
        };
        let parts = self.ways_between([from, to], fields).into_iter();
        let with_ends = parts.map(|part| Part {
            way: self.links.between_nics(self.fabric, ends, part.way),
            ..part
        });
        with_ends.collect()
    }

    fn ways_between(&self, [from, to]: [NodeId; 2], fields: Fields) -> Vec<Part> {
        let towards = self.compass.borrow_mut().towards(&self.links, to);
        match self.settings.spreading {
            Spreading::Even => self.links.ways(from, &towards, MAX_PATHS),
            Spreading::Hashed(ecmp) => {
                let way = self.links.way(from, &towards, &ecmp, ecmp.label(fields));
                way.map(whole).into_iter().collect()
            }
        }
    }

    /// Returns the hash label of the traffic between two ranks.
    fn label(&self, ecmp: Ecmp, pair: [Rank; 2]) -> Label {
        ecmp.label(self.fields(pair))
    }

    /// Returns what switches hash of the traffic between two ranks; ranks of one host differ by their ports.
    fn fields(&self, pair: [Rank; 2]) -> Fields {
        let [source, destination] = pair.map(|rank| self.host(rank).index() as u32);
        let [source_port, destination_port] = pair.map(|rank| rank.index() as u16);
        Fields {
            source,
            destination,
            source_port,
            destination_port,
            protocol: 17,
        }
    }

    /// Remembers how much waited before links.
    pub(super) fn remember(&self, problem: &Problem, outcome: &Outcome) {
        self.queues
            .get_or_init(|| evaluation::queues(problem, outcome));
    }

    /// Returns the number of messages that wait before a link of the problem; zero while it is unknown.
    pub(super) fn waiting(&self, lane: u32) -> f64 {
        let known = self.queues.get().and_then(|all| all.get(lane as usize));
        known.copied().unwrap_or(0.0)
    }

    /// Returns the rate of a link of the problem, after retransmissions.
    pub(super) fn goodput(&self, lane: usize, rate: Rate) -> Rate {
        let Some(cable) = self.cable(lane) else {
            return rate;
        };
        if !self.settings.effects.loss.contains_key(&cable) {
            return rate;
        }
        let part = self.settings.effects.goodput(self.fabric, cable);
        Rate::from_bits_per_s(((rate.bits_per_s() as f64 * part) as u64).max(1))
    }

    /// Returns the rate of a link of the fabric or of a relay; other links are unlimited.
    pub(super) fn rate_bps(&self, lane: u32) -> f64 {
        let rate = self.links.capacities().get(lane as usize);
        rate.map_or(f64::INFINITY, |rate| rate.bits_per_s() as f64)
    }

    /// The cable that a link of the problem is one direction of.
    pub(super) fn cable(&self, lane: usize) -> Option<LinkId> {
        let cables = 2 * self.fabric.links().len();
        (lane < cables).then(|| LinkId::from_index(lane / 2))
    }

    /// Whether a cable joins what only passes on.
    pub(super) fn is_between(&self, cable: LinkId) -> bool {
        let link = self.fabric.link(cable);
        let ends = [link.a.node, link.b.node];
        !ends
            .iter()
            .any(|&end| self.fabric.node(end).role.is_endpoint())
    }

    /// The host that a link of the problem leads to.
    pub(super) fn port(&self, lane: usize) -> Option<NodeId> {
        let link = self.fabric.link(self.cable(lane)?);
        let [a, b] = [link.a.node, link.b.node];
        let to = if lane.is_multiple_of(2) { b } else { a };
        self.fabric.node(to).role.is_endpoint().then_some(to)
    }

    /// Returns the name of a link of the problem: `h0>leaf1`, or `h0>leaf1.2` for the third of parallel cables.
    pub(super) fn lane_name(&self, lane: usize) -> String {
        let (cables, links) = (2 * self.fabric.links().len(), self.links.capacities().len());
        if lane < cables {
            return self.cable_name(LinkId::from_index(lane / 2), lane % 2 == 1);
        }
        if lane < links {
            let mut relays = self
                .fabric
                .nodes()
                .filter(|(_, node)| node.role == Role::Relay);
            let relay = relays.nth(lane - cables);
            return format!("through {}", relay.map_or("", |(_, node)| &node.name));
        }
        let rank = Rank::from_index((lane - links) / 2);
        format!("rank {rank} inside {}", self.fabric.name(self.host(rank)))
    }

    fn cable_name(&self, id: LinkId, backwards: bool) -> String {
        let link = self.fabric.link(id);
        let mut ends = [link.a.node, link.b.node];
        let nth = self.fabric.nth(id);
        if backwards {
            ends.reverse();
        }
        let [from, to] = ends.map(|node| self.fabric.name(node));
        match nth {
            0 => format!("{from}>{to}"),
            nth => format!("{from}>{to}.{nth}"),
        }
    }
}

fn whole(way: NetworkPath) -> Part {
    Part { way, share: 1.0 }
}
