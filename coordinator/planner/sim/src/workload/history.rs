//! What-if simulation: recorded traffic on another fabric, with other paths, or between other hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;

use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;
use reweave_repair::paths::ecmp::{Ecmp, Fields};

use crate::engine::network::{Compass, Costs, Network, NetworkPath, Part};
use crate::engine::{
    self, Outcome, PathIndex, Problem, ProblemError, Progress, SimError, SimTime, TaskIndex,
};

/// A burst of a flow that was seen: it sent this much in one go.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// Since the beginning of the time span, or since the end of the last task that it waits for.
    pub at: SimTime,
    /// Places among all bursts.
    pub after: Vec<usize>,
    pub from: NodeId,
    pub to: NodeId,
    pub ports: [u16; 2],
    pub protocol: u8,
    pub bytes: f64,
    /// Nodes between the ends, if the path is given.
    pub along: Option<Vec<NodeId>>,
}

/// Routing of traffic without a given path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Routing {
    /// Evenly over all shortest paths, as with packet spraying.
    Even,
    /// Over one of them, by the switches' hash.
    Hashed(Ecmp),
}

/// Simulated times of the same bursts.
#[derive(Debug, Clone, PartialEq)]
pub struct Replayed {
    /// Time of each burst.
    pub times: Vec<SimTime>,
    /// When the last of them has ended.
    pub end: SimTime,
    /// Bits over each link, including headers; cable `n` from its end `a` is link `2n`.
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
            Self::NoWay { from, to } => write!(f, "no path from {from} to {to}"),
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

/// Maximum number of paths over which traffic is spread.
const MAX_PATHS: usize = 64;

/// Plays bursts that were seen: each begins when it did, and takes as long as it must. More than `limit` units of work
/// is an error; `watch` gets now and then how far it is, and says whether to go on.
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
        acts: Vec::with_capacity(seen.len()),
    };
    for burst in seen {
        stage.add(burst)?;
    }
    stage.add_waits(seen)?;
    let outcome = engine::watched(&stage.problem, limit, watch).map_err(ReplayError::Course)?;
    let times = stage.acts.iter().map(|act| act.took(&outcome));
    Ok(Replayed {
        times: times.collect(),
        end: outcome.makespan(),
        carried_bits: stage.carried_bits,
        events: outcome.events,
    })
}

/// A burst in the problem: its parts, and the tasks before and after several of them.
struct Act {
    parts: Range<usize>,
    /// Delay of the first bit of the first part.
    delay: SimTime,
    /// Task before and after a burst of several paths, so that a burst that waits for it has one predecessor.
    gate: Option<TaskIndex>,
    end: TaskIndex,
}

impl Act {
    /// Returns the time from its release to its last bit.
    fn took(&self, outcome: &Outcome) -> SimTime {
        let begun = outcome.starts[self.parts.start];
        let parts = &outcome.finishes[self.parts.clone()];
        let finish = parts.iter().copied().max().unwrap_or_default();
        finish.since(begun).plus(self.delay)
    }
}

struct Stage<'f> {
    fabric: &'f Fabric,
    carried_bits: Vec<f64>,
    network: Network,
    problem: Problem,
    routing: Routing,
    compass: Compass,
    paths: BTreeMap<Vec<u32>, PathIndex>,
    acts: Vec<Act>,
}

impl Stage<'_> {
    fn add(&mut self, burst: &Seen) -> Result<(), ReplayError> {
        let parts = self.parts(burst)?;
        let (delay, several) = (parts[0].way.delay, parts.len() > 1);
        let gate = several && !burst.after.is_empty();
        let gate = gate.then(|| self.add_mark()).transpose()?;
        let first = self.problem.tasks();
        for Part { way, share } in parts {
            let bits = self.network.bits(burst.bytes * share);
            for &link in &way.links {
                self.carried_bits[link as usize] += bits;
            }
            let path = self.path(way.links)?;
            let begins = burst.at.plus(way.delay);
            self.problem.add_transfer(path, bits, begins)?;
        }
        let parts = first..self.problem.tasks();
        let end = parts.end as TaskIndex - 1;
        self.acts.push(Act {
            parts,
            delay,
            gate,
            end,
        });
        Ok(())
    }

    fn path(&mut self, links: Vec<u32>) -> Result<PathIndex, ProblemError> {
        if let Some(&path) = self.paths.get(&links) {
            return Ok(path);
        }
        let path = self.problem.add_path(&links)?;
        self.paths.insert(links, path);
        Ok(path)
    }

    /// A task that takes no time.
    fn add_mark(&mut self) -> Result<TaskIndex, ProblemError> {
        let path = self.path(Vec::new())?;
        self.problem.add_transfer(path, 0.0, SimTime::ZERO)
    }

    fn add_waits(&mut self, seen: &[Seen]) -> Result<(), ReplayError> {
        let waited_for: BTreeSet<_> = seen.iter().flat_map(|it| &it.after).collect();
        for &burst in waited_for {
            let parts = self.acts[burst].parts.clone();
            if parts.len() > 1 {
                let end = self.add_mark()?;
                self.add_wait_each(parts, |part| [part, end])?;
                self.acts[burst].end = end;
            }
        }
        for (act, burst) in seen.iter().enumerate() {
            let Act { parts, gate, .. } = &self.acts[act];
            let (parts, gate) = (parts.clone(), *gate);
            if let Some(gate) = gate {
                self.add_wait_each(parts.clone(), |part| [gate, part])?;
            }
            let first = gate.unwrap_or(parts.start as TaskIndex);
            for &before in &burst.after {
                let before = self.acts[before].end;
                self.problem.add_wait(before, first)?;
            }
        }
        Ok(())
    }

    fn add_wait_each(
        &mut self,
        parts: Range<usize>,
        pair: impl Fn(TaskIndex) -> [TaskIndex; 2],
    ) -> Result<(), ProblemError> {
        for part in parts {
            let [before, after] = pair(part as TaskIndex);
            self.problem.add_wait(before, after)?;
        }
        Ok(())
    }

    fn parts(&mut self, burst: &Seen) -> Result<Vec<Part>, ReplayError> {
        let (network, ecmp) = (&self.network, self.ecmp());
        let label = ecmp.label(fields(burst));
        let whole = |way| Part { way, share: 1.0 };
        if burst.from == burst.to {
            return Ok(vec![whole(NetworkPath::default())]);
        }
        let towards = self.compass.towards(network, burst.to);
        let parts: Vec<_> = match (&burst.along, self.routing) {
            (Some(nodes), _) => {
                let way = network.along(nodes, &ecmp, label);
                way.into_iter().map(whole).collect()
            }
            (None, Routing::Even) => network.ways(burst.from, &towards, MAX_PATHS),
            (None, Routing::Hashed(_)) => {
                let way = network.way(burst.from, &towards, &ecmp, label);
                way.into_iter().map(whole).collect()
            }
        };
        if parts.is_empty() {
            Err(ReplayError::NoWay {
                from: self.fabric.name(burst.from).to_owned(),
                to: self.fabric.name(burst.to).to_owned(),
            })
        } else {
            Ok(parts)
        }
    }

    fn ecmp(&self) -> Ecmp {
        match self.routing {
            Routing::Hashed(ecmp) => ecmp,
            Routing::Even => Ecmp::Mixed { seed: 0 },
        }
    }
}

/// Returns the hashed fields. Hosts are identified by their numbers in the fabric, as elsewhere in the simulator.
fn fields(burst: &Seen) -> Fields {
    Fields {
        source: burst.from.index() as u32,
        destination: burst.to.index() as u32,
        source_port: burst.ports[0],
        destination_port: burst.ports[1],
        protocol: burst.protocol,
    }
}
