//! What to do at once when something fails: other routes over what is left.

use std::time::Duration;

use reweave_common::carriage::Carriage;
use reweave_common::fabric::Fabric;
use reweave_common::units::Rate;

use super::candidates::Design;
use super::carry::{MOST_SPREAD_PAIRS, carriage};
use super::demand::Demand;
use super::error::TopologyError;
use super::limits::Limits;
use super::plan::{Job, places};
use super::wiring::{Pair, Wiring};
use crate::routing::{self, Effort, Routes};
use crate::workload::{self, Network};

/// New routes at once are balanced less well than those that there is time for.
const ROUNDS_AT_ONCE: u32 = 12;

/// A wiring without what has failed, and its routes.
#[derive(Debug)]
pub struct Repair {
    pub design: Design,
    pub routes: Routes,
    pub carriage: Carriage,
    /// Hosts whose tables are others than before.
    pub changed: Vec<u32>,
}

/// What has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failed {
    Cable(Pair),
    /// All cables of a host; it forwards nothing any more.
    Host(u32),
}

/// New routes over what is left of a design; its cables stay where they are.
pub fn repair(
    design: &Design,
    before: Option<&Routes>,
    job: &Job<'_>,
    failed: &[Failed],
) -> Result<Repair, TopologyError> {
    let mut left = design.clone();
    take_away(&mut left.wiring, failed);
    let hosts = left.wiring.hosts();
    let demand = Demand::of(job.iteration, job.place, hosts);
    reachable(&left.wiring, &demand)?;
    left.rings.retain(|ring| is_whole(ring, &left.wiring));
    let effort = Effort {
        rounds: ROUNDS_AT_ONCE,
        ..Effort::default()
    };
    let routes = routing::balanced(&left.wiring, &demand.pairs, effort);
    let carriage = carriage(
        &left,
        &routes,
        job.iteration,
        job.place,
        &demand,
        MOST_SPREAD_PAIRS,
    );
    Ok(Repair {
        changed: changed(before, &routes),
        design: left,
        routes,
        carriage,
    })
}

fn take_away(wiring: &mut Wiring, failed: &[Failed]) {
    for failed in failed {
        match *failed {
            Failed::Cable([a, b]) => wiring.part(a, b),
            Failed::Host(host) => {
                for other in wiring.neighbours(host).to_vec() {
                    wiring.part(host, other);
                }
            }
        }
    }
}

fn is_whole(ring: &[u32], wiring: &Wiring) -> bool {
    let next = |nth: usize| ring[(nth + 1) % ring.len()];
    (0..ring.len()).all(|nth| wiring.joins(ring[nth], next(nth)))
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
        }),
    }
}

/// Lanes are numbered anew when one has gone, so that hosts are compared by where they send.
fn changed(before: Option<&Routes>, after: &Routes) -> Vec<u32> {
    let hosts = 0..after.lanes().hosts() as u32;
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
    /// What an iteration takes from now on.
    pub fn iteration_ms(&self, job: &Job<'_>, rate: Rate, work: u64) -> Result<f64, TopologyError> {
        let fabric: Fabric = self.design.wiring.fabric(rate, Duration::ZERO)?;
        let placement = places(job.place);
        let network = Network::new(&fabric, &placement, &self.carriage, job.settings.clone());
        Ok(workload::simulate(job.iteration, &network, work)?
            .end
            .millis())
    }
}

/// Takes what has failed out of what new circuits may use: the fibre, and one port at each end of it.
pub fn without(limits: &mut Limits, wiring: &Wiring, failed: &[Failed]) {
    let cables = failed.iter().flat_map(|failed| match *failed {
        Failed::Cable(pair) => vec![pair],
        Failed::Host(host) => {
            let others = wiring.neighbours(host).iter();
            others
                .map(|&other| super::wiring::pair(host, other))
                .collect()
        }
    });
    for [a, b] in cables {
        limits.cut.insert([a, b]);
        for end in [a, b] {
            let ports = &mut limits.ports[end as usize];
            *ports = ports.saturating_sub(1);
        }
    }
}

/// For each cable, the shortest way around it: what its two hosts do by themselves, before anybody
/// has planned anything. A cable without one is a bridge.
pub fn backups(wiring: &Wiring) -> Vec<(Pair, Option<Vec<u32>>)> {
    let around = |[a, b]: Pair| {
        let mut came_from = vec![u32::MAX; wiring.hosts()];
        came_from[a as usize] = a;
        let mut line = vec![a];
        let mut at = 0;
        while let Some(&host) = line.get(at) {
            at += 1;
            for &next in wiring.neighbours(host) {
                let is_it = host == a && next == b;
                if came_from[next as usize] == u32::MAX && !is_it {
                    came_from[next as usize] = host;
                    line.push(next);
                }
            }
        }
        way_back(&came_from, a, b)
    };
    wiring
        .pairs()
        .into_iter()
        .map(|pair| (pair, around(pair)))
        .collect()
}

fn way_back(came_from: &[u32], a: u32, b: u32) -> Option<Vec<u32>> {
    let mut way = vec![b];
    let mut at = b;
    while at != a {
        at = came_from[at as usize];
        if at == u32::MAX {
            return None;
        }
        way.push(at);
    }
    way.reverse();
    Some(way)
}
