//! Immediate repair after a failure: other routes over the remaining links.

use std::collections::BTreeSet;
use std::time::Duration;

use reweave_common::explicit_paths::ExplicitPaths;
use reweave_common::fabric::Fabric;
use reweave_common::iteration::Iteration;
use reweave_sim::workload::{self, Network};

use super::carry::{Known, MAX_SPREAD_PAIRS, Wired, carriage};
use super::demand::Demand;
use super::distances::Distances;
use super::error::TopologyError;
use super::families::{Design, is_whole};
use super::plan::{Draft, Job, Proposal, Request, places};
use super::rewire::without;
use super::survivors;
use super::wiring::{Pair, Wiring, pair};
use crate::crew::{InTime, NO_DEADLINE};
use crate::routing::{self, Effort, Routes};

/// Routes computed at once are balanced less well than routes with time for the search.
const MAX_REPAIR_ROUNDS: u32 = 12;

/// A wiring without what has failed, and its routes.
#[derive(Debug)]
pub struct Repair {
    pub design: Design,
    pub routes: Routes,
    pub carriage: ExplicitPaths,
    /// Hosts whose tables are others than before.
    pub changed: Vec<u32>,
    /// Iteration on the remaining hosts.
    pub iteration: Iteration,
    /// Number of working ports of each host.
    pub ports: Vec<usize>,
}

/// A failed element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failed {
    /// A fibre, with what is at both of its ends.
    Cable(Pair),
    /// The port of the first host at the cable to the second.
    Port { of: u32, towards: u32 },
    /// All cables of a host; it sends and forwards nothing any longer.
    Host(u32),
    /// An optical switch or patch panel, by its number.
    Panel(usize),
}

impl Failed {
    /// The cables that are gone.
    pub fn cables(self, design: &Design) -> Vec<Pair> {
        match self {
            Self::Cable(cable) => vec![cable],
            Self::Port { of, towards } => vec![pair(of, towards)],
            Self::Host(host) => {
                let others = design.wiring.neighbours(host).iter();
                others.map(|&other| pair(host, other)).collect()
            }
            Self::Panel(nth) => {
                let on = design.patches.iter().filter(|patch| patch.panel == nth);
                on.map(|patch| patch.cable).collect()
            }
        }
    }
}

/// New routes over what is left of a design; its cables stay where they are. Hosts that failed take no part in the job
/// any longer.
pub fn repair(
    design: &Design,
    before: Option<&Routes>,
    job: &Job<'_>,
    request: &Request,
    failed: &[Failed],
) -> Result<Repair, TopologyError> {
    let (lost, hosts) = (lost_hosts(failed), design.wiring.hosts());
    if lost.len() == hosts {
        return Err(TopologyError::NoHostLeft { hosts });
    }
    let mut left = left_of(design, failed);
    let iteration = survivors::iteration(job, &lost)?;
    let job = Job {
        iteration: &iteration,
        ..*job
    };
    let demand = Demand::of(job.iteration, job.place, left.wiring.hosts());
    reachable(&left.wiring, &demand)?;
    left.rings.retain(|ring| is_whole(ring, &left.wiring));
    let effort = Effort {
        rounds: MAX_REPAIR_ROUNDS,
        ..request.effort(&left.wiring)
    };
    let routes = routing::balanced(&left.wiring, &demand.pairs, effort);
    let wired = Wired {
        design: &left,
        routes: &routes,
        known: &Known::nothing(&left),
    };
    let carriage = carriage(wired, job.iteration, job.place, &demand, MAX_SPREAD_PAIRS);
    Ok(Repair {
        changed: changed(before, &routes, &lost),
        ports: ports_left(request, design, failed),
        design: left,
        routes,
        carriage,
        iteration,
    })
}

/// Returns the working ports of each host.
fn ports_left(request: &Request, design: &Design, failed: &[Failed]) -> Vec<usize> {
    let mut ports = without(&request.limits, design, failed).ports;
    for host in lost_hosts(failed) {
        ports[host as usize] = 0;
    }
    ports
}

/// Returns the design with the remaining cables.
fn left_of(design: &Design, failed: &[Failed]) -> Design {
    let mut left = design.clone();
    for [a, b] in failed.iter().flat_map(|failed| failed.cables(design)) {
        left.wiring.part(a, b);
    }
    left.altered = design.altered.besides(&design.wiring, &left.wiring);
    let wiring = &left.wiring;
    left.patches
        .retain(|patch| wiring.joins(patch.cable[0], patch.cable[1]));
    left
}

/// Those among what has failed.
pub fn lost_hosts(failed: &[Failed]) -> BTreeSet<u32> {
    failed
        .iter()
        .filter_map(|failed| match *failed {
            Failed::Host(host) => Some(host),
            _ => None,
        })
        .collect()
}

/// All that send to each other must be in one part.
fn reachable(wiring: &Wiring, demand: &Demand) -> Result<(), TopologyError> {
    let mut part_of = vec![0; wiring.hosts()];
    let parts = wiring.parts();
    for (nth, part) in parts.iter().enumerate() {
        part.iter().for_each(|&host| part_of[host as usize] = nth);
    }
    let of_groups = demand
        .groups
        .iter()
        .flat_map(|group| group.members.windows(2));
    let of_groups = of_groups.map(|ends| [ends[0], ends[1]]);
    let mut ends = demand.pairs.keys().map(|&(a, b)| [a, b]).chain(of_groups);
    let cut = ends.find(|[a, b]| part_of[*a as usize] != part_of[*b as usize]);
    match cut {
        None => Ok(()),
        Some([host, _]) => Err(TopologyError::Apart {
            host,
            reached: parts[part_of[host as usize]].len(),
            hosts: wiring.hosts(),
            largest: parts.iter().map(Vec::len).max().unwrap_or(0),
        }),
    }
}

/// Returns the hosts with changed tables. Lanes are renumbered after a failure, so next hops are compared by host.
/// Failed hosts cannot get an instruction.
fn changed(before: Option<&Routes>, after: &Routes, lost: &BTreeSet<u32>) -> Vec<u32> {
    let hosts = (0..after.lanes().hosts() as u32).filter(|host| !lost.contains(host));
    let sends = |routes: &Routes, at: u32| -> Vec<(u32, u32, u8)> {
        let to = 0..routes.lanes().hosts() as u32;
        let next = to.flat_map(|to| {
            let next = routes.next(at, to);
            next.map(move |(lane, weight)| (to, routes.lanes().end(lane), weight))
                .collect::<Vec<_>>()
        });
        next.collect()
    };
    let differs = |&at: &u32| before.is_none_or(|before| sends(before, at) != sends(after, at));
    hosts.filter(differs).collect()
}

impl Repair {
    /// Returns the iteration time after the repair.
    pub fn iteration_ms(&self, job: &Job<'_>, request: &Request) -> Result<f64, TopologyError> {
        self.iteration_ms_until(job, request, NO_DEADLINE)
    }

    /// The same, unless time is up before that.
    pub(super) fn iteration_ms_until(
        &self,
        job: &Job<'_>,
        request: &Request,
        in_time: InTime<'_>,
    ) -> Result<f64, TopologyError> {
        let fabric: Fabric = self.design.wiring.fabric(request.rate, Duration::ZERO)?;
        let (placement, settings) = (places(job.place), request.settings(job.settings));
        let network = Network::new(&fabric, &placement, &self.carriage, settings);
        let go_on = &mut || in_time();
        let timeline = workload::simulate_while(&self.iteration, &network, request.work, go_on)?;
        Ok(timeline.end.millis())
    }

    /// All that is to be known of it.
    pub fn proposal(&self, job: &Job<'_>, request: &Request) -> Result<Proposal, TopologyError> {
        let job = Job {
            iteration: &self.iteration,
            ..*job
        };
        let demand = Demand::of(job.iteration, job.place, self.design.wiring.hosts());
        let distances = Distances::of(&self.design.wiring);
        let (design, routes) = (self.design.clone(), self.routes.clone());
        let draft = Draft::along(design, routes, distances, &demand, request);
        let proposal = draft.proposed(&job, &demand, request)?;
        Ok(Proposal {
            ports: self.ports.clone(),
            ..proposal
        })
    }
}
