//! One job of a plan, with the lanes that it uses and no others.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use reweave_common::explicit_paths::ExplicitPaths;
use reweave_common::fabric::Fabric;
use reweave_common::ids::LinkId;
use reweave_common::iteration::Iteration;

use super::Seat;
use crate::engine::{self, LinkIndex, Problem, SimTime, TaskIndex, Work};
use crate::workload::lowering::{Lowered, SimulationError};
use crate::workload::network::{Network, Settings};

/// A lane by what does not depend on how a fabric counts its links: the sender and its port. What
/// is no cable is named by the job and a number of its own, or the relay.
pub(super) type Lane = [u32; 3];

const CABLE_KEY: u32 = 0;
const RELAY_KEY: u32 = 1;
const INTRA_HOST_KEY: u32 = 2;

#[derive(Debug)]
pub(super) struct Part {
    problem: Problem,
    /// Lane of each link of the problem.
    pub(super) lanes: Vec<Lane>,
    /// The job cannot be faster than this.
    pub(super) bound: SimTime,
}

impl Part {
    pub(super) fn of(
        job: usize,
        iteration: &Iteration,
        fabric: &Fabric,
        seat: &Seat,
        settings: &Settings,
    ) -> Result<Self, SimulationError> {
        let network = Network::new(fabric, &seat.placement, &seat.carriage, settings.clone());
        let whole = Lowered::of(iteration, &network)?.problem;
        let (lanes, links) = used_links(&whole, |link| lane(job, fabric, &network, link));
        let mut problem = Problem::new();
        for link in (0..)
            .zip(whole.capacities())
            .filter(|(link, _)| links.contains_key(link))
        {
            problem.add_link(*link.1)?;
        }
        problem.append(&whole, |link| links.get(&link).copied())?;
        Ok(Self {
            bound: bound(&problem),
            problem,
            lanes,
        })
    }

    /// Returns the size of the cached data.
    pub(super) fn size(&self) -> usize {
        self.problem.tasks() + self.problem.waits().len()
    }
}

/// The links that a problem's paths cross, by name, and their numbers among these.
fn used_links(
    problem: &Problem,
    name: impl Fn(LinkIndex) -> Lane,
) -> (Vec<Lane>, BTreeMap<LinkIndex, LinkIndex>) {
    let paths = (0..problem.paths() as u32).flat_map(|path| problem.path(path));
    let used: BTreeSet<_> = paths.copied().collect();
    let lanes = used.iter().map(|&link| name(link)).collect();
    (lanes, used.into_iter().zip(0..).collect())
}

fn lane(job: usize, fabric: &Fabric, network: &Network<'_>, link: LinkIndex) -> Lane {
    let cables = 2 * fabric.links().len();
    let link = link as usize;
    if link < cables {
        let cable = fabric.link(LinkId::from_index(link / 2));
        let sender = cable.ports()[link % 2];
        return [CABLE_KEY, sender.node.index() as u32, sender.index];
    }
    let relays = network.links.capacities().len();
    if link < relays {
        [RELAY_KEY, (link - cables) as u32, 0]
    } else {
        [INTRA_HOST_KEY, job as u32, (link - relays) as u32]
    }
}

/// Tolerance of a bound, whose sum has another order than that of the simulation.
const ROUNDING_TOLERANCE: f64 = 1e-9;

fn bound(problem: &Problem) -> SimTime {
    let mut busy_s = vec![0.0; problem.capacities().len()];
    let mut computing_s = vec![0.0; problem.devices()];
    for task in 0..problem.tasks() as TaskIndex {
        match problem.work(task) {
            Work::Compute { device, time } => computing_s[device as usize] += time.seconds(),
            Work::Transfer { path, bits } => {
                for &link in problem.path(path) {
                    let rate = problem.capacities()[link as usize].bits_per_s();
                    busy_s[link as usize] += bits / rate as f64;
                }
            }
        }
    }
    let longest_s = busy_s.into_iter().chain(computing_s).fold(0.0, f64::max);
    let longest = SimTime::from_seconds(longest_s * (1.0 - ROUNDING_TOLERANCE)).unwrap_or_default();
    longest.max(engine::longest_chain(problem))
}

/// When the last task of each part is done, if all begin at once, and the work that this took.
pub(super) fn simulate(
    parts: &[&Part],
    limit: u64,
) -> Result<(Vec<SimTime>, u64), SimulationError> {
    if let [only] = parts {
        let outcome = engine::simulate(&only.problem, limit)?;
        return Ok((vec![outcome.makespan()], outcome.work));
    }
    let mut links: BTreeMap<Lane, LinkIndex> = BTreeMap::new();
    let mut together = Problem::new();
    let mut ends = Vec::with_capacity(parts.len());
    for part in parts {
        for (&lane, &rate) in part.lanes.iter().zip(part.problem.capacities()) {
            if let Entry::Vacant(vacant) = links.entry(lane) {
                vacant.insert(together.add_link(rate)?);
            }
        }
        let link = |link: LinkIndex| links.get(&part.lanes[link as usize]).copied();
        together.append(&part.problem, link)?;
        ends.push(together.tasks());
    }
    let outcome = engine::simulate(&together, limit)?;
    let mut first = 0;
    let last_of = |end: usize| {
        let tasks = &outcome.finishes[std::mem::replace(&mut first, end)..end];
        tasks.iter().copied().max().unwrap_or_default()
    };
    Ok((ends.into_iter().map(last_of).collect(), outcome.work))
}

/// A carriage as words that have an order.
pub(super) fn spelled(carriage: &ExplicitPaths) -> Vec<u64> {
    let mut words = Vec::new();
    for ((from, to), ways) in &carriage.ways {
        words.extend([from.index(), to.index(), ways.len()].map(|it| it as u64));
        for way in ways {
            words.extend([way.weight.to_bits(), way.nodes.len() as u64]);
            words.extend(way.nodes.iter().map(|node| node.index() as u64));
        }
    }
    words.push(u64::MAX);
    for (group, rings) in &carriage.rings {
        words.extend([group.len() as u64, rings.len() as u64]);
        words.extend(group.iter().map(|rank| rank.index() as u64));
        for ring in rings {
            words.extend([ring.weight.to_bits(), ring.members.len() as u64]);
            words.extend(ring.members.iter().map(|rank| rank.index() as u64));
            for leg in &ring.legs {
                let nodes = leg.as_deref().unwrap_or_default();
                // A leg that is given has nodes, which distinguishes it from one without.
                words.push(nodes.len() as u64);
                words.extend(nodes.iter().map(|node| node.index() as u64));
            }
        }
    }
    words
}
