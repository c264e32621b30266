//! What if: traffic that was, on another fabric, with other ways, or between other hosts.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use reweave_common::fabric::Fabric;
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::ids::NodeId;
use reweave_common::units::Bytes;

use crate::sim::ecmp::{Ecmp, Fields};
use crate::sim::network::{Compass, Costs, Network, Part};
use crate::sim::{self, PathIndex, Problem, ProblemError, Progress, SimError, SimTime};

/// A burst of a flow that was seen: it sent this much in one go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Since the beginning of the time span.
    pub at: Duration,
    pub from: NodeId,
    pub to: NodeId,
    pub flow: FlowKey,
    pub bytes: Bytes,
    /// The nodes from one to the other, where its way is given.
    pub along: Option<Vec<NodeId>>,
}

/// How traffic goes whose way is not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Routing {
    /// Evenly over all shortest ways, as packets do that are sprayed.
    Even,
    /// Over one of them, by the switches' hash.
    Hashed(Ecmp),
}

/// How the same bursts fare.
#[derive(Debug, Clone, PartialEq)]
pub struct Replayed {
    /// By burst, how long it takes.
    pub times: Vec<SimTime>,
    /// When the last of them has ended.
    pub end: SimTime,
    /// By link, cable `n` from its end `a` at `2n`: what went over it, headers and all.
    pub carried_bits: Vec<f64>,
    pub events: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ReplayError {
    NoWay { from: String, to: String },
    Problem(ProblemError),
    Course(SimError),
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoWay { from, to } => write!(f, "there is no way from {from} to {to}"),
            Self::Problem(error) => error.fmt(f),
            Self::Course(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReplayError {}

impl From<ProblemError> for ReplayError {
    fn from(error: ProblemError) -> Self {
        Self::Problem(error)
    }
}

/// Traffic spreads over no more ways than these.
const MOST_WAYS: usize = 64;

/// Plays bursts that were seen: each begins when it did, and takes as long as it must. More than
/// `limit` units of work is an error; `watch` is told now and then how far it is, and says whether to go on.
pub fn replay(
    seen: &[Seen],
    fabric: &Fabric,
    routing: Routing,
    costs: Costs,
    limit: u64,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<Replayed, ReplayError> {
    let network = Network::of(fabric, costs);
    let mut stage = Stage {
        fabric,
        carried_bits: vec![0.0; network.capacities().len()],
        problem: network.problem()?,
        network,
        routing,
        compass: Compass::default(),
        paths: BTreeMap::new(),
    };
    let mut ends = Vec::with_capacity(seen.len());
    for burst in seen {
        stage.add(burst)?;
        ends.push(stage.problem.tasks());
    }
    let outcome = sim::watched(&stage.problem, limit, watch).map_err(ReplayError::Course)?;
    let mut first = 0;
    let time = |(burst, &end): (&Seen, &usize)| {
        let parts = &outcome.finishes[std::mem::replace(&mut first, end)..end];
        let finish = parts.iter().copied().max().unwrap_or_default();
        finish.since(SimTime::from_duration(burst.at))
    };
    Ok(Replayed {
        times: seen.iter().zip(&ends).map(time).collect(),
        end: outcome.makespan(),
        carried_bits: stage.carried_bits,
        events: outcome.events,
    })
}

struct Stage<'f> {
    fabric: &'f Fabric,
    carried_bits: Vec<f64>,
    network: Network,
    problem: Problem,
    routing: Routing,
    compass: Compass,
    paths: BTreeMap<Vec<u32>, PathIndex>,
}

impl Stage<'_> {
    fn add(&mut self, burst: &Seen) -> Result<(), ReplayError> {
        let begins = SimTime::from_duration(burst.at);
        for Part { way, share } in self.parts(burst)? {
            let bits = self.network.bits(burst.bytes.count() as f64 * share);
            for &link in &way.links {
                self.carried_bits[link as usize] += bits;
            }
            let path = match self.paths.get(&way.links) {
                Some(&path) => path,
                None => {
                    let path = self.problem.add_path(&way.links)?;
                    self.paths.insert(way.links, path);
                    path
                }
            };
            self.problem
                .add_transfer(path, bits, begins.plus(way.delay))?;
        }
        Ok(())
    }

    fn parts(&mut self, burst: &Seen) -> Result<Vec<Part>, ReplayError> {
        let (network, ecmp) = (&self.network, self.ecmp());
        let label = ecmp.label(fields(burst));
        let whole = |way| Part { way, share: 1.0 };
        let towards = self.compass.towards(network, burst.to);
        let parts: Vec<_> = match (&burst.along, self.routing) {
            (Some(nodes), _) => {
                let way = network.along(nodes, &ecmp, label);
                way.into_iter().map(whole).collect()
            }
            (None, Routing::Even) => network.ways(burst.from, &towards, MOST_WAYS),
            (None, Routing::Hashed(_)) => {
                let way = network.way(burst.from, &towards, &ecmp, label);
                way.into_iter().map(whole).collect()
            }
        };
        match parts.is_empty() {
            true => Err(ReplayError::NoWay {
                from: self.fabric.name(burst.from).to_owned(),
                to: self.fabric.name(burst.to).to_owned(),
            }),
            false => Ok(parts),
        }
    }

    fn ecmp(&self) -> Ecmp {
        match self.routing {
            Routing::Hashed(ecmp) => ecmp,
            Routing::Even => Ecmp::Mixed { seed: 0 },
        }
    }
}

/// What switches hash: hosts by their numbers in the fabric, as elsewhere in the simulator.
fn fields(burst: &Seen) -> Fields {
    Fields {
        source: burst.from.index() as u32,
        destination: burst.to.index() as u32,
        source_port: burst.flow.source.port(),
        destination_port: burst.flow.destination.port(),
        protocol: match burst.flow.protocol {
            Protocol::Tcp => 6,
            Protocol::Udp => 17,
        },
    }
}
