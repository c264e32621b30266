//! Paths of a job's traffic over a wiring: rings or trees of its groups, and paths of its pairs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use reweave_common::explicit_paths::{self, ExplicitPaths, Forest, ForestEdge, GroupRing};
use reweave_common::ids::{NodeId, Rank};
use reweave_common::iteration::{Iteration, TaskWork};

use super::demand::Demand;
use super::distances::Distances;
use super::families::Design;
use super::forest;
use super::wiring::Wiring;
use crate::routing::{self, Routes, WeightedPath};

/// Maximum number of paths between two hosts.
pub const MAX_PATHS_PER_PAIR: usize = 8;
/// Above this number of pairs, each takes one path: together they spread evenly over the lanes.
pub const MAX_SPREAD_PAIRS: usize = 300;
/// Cables that may be looked at for the trees of one group.
const MAX_FOREST_WORK: usize = 4 << 20;

/// A design with its routes, and what is known of them already.
#[derive(Debug, Clone, Copy)]
pub struct Wired<'w> {
    pub design: &'w Design,
    pub routes: &'w Routes,
    pub known: &'w Known,
}

/// Results for earlier traffic over the same design and routes, which are reused.
#[derive(Debug)]
pub struct Known {
    ways: routing::Known,
    forests: Mutex<BTreeMap<Vec<u32>, Packed>>,
    distances: OnceLock<Distances>,
}

/// None if the hosts are not connected.
type Packed = Option<Arc<forest::Shares>>;

impl Known {
    pub fn nothing(design: &Design) -> Self {
        Self {
            ways: routing::Known::nothing(design.wiring.hosts()),
            forests: Mutex::default(),
            distances: OnceLock::new(),
        }
    }

    fn forest(&self, wiring: &Wiring, hosts: Vec<u32>) -> Packed {
        let lock = || self.forests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&hosts) {
            return known.clone();
        }
        let packed = forest::pack(wiring, &hosts, MAX_FOREST_WORK).map(Arc::new);
        lock().insert(hosts, packed.clone());
        packed
    }
}

/// Returns the paths of a job's traffic. `place` is the host of each rank; above `most_spread` sending pairs, each
/// takes one path.
pub fn carriage(
    wired: Wired<'_>,
    iteration: &Iteration,
    place: &[u32],
    demand: &Demand,
    most_spread: usize,
) -> ExplicitPaths {
    let way = |way: WeightedPath| explicit_paths::NodePath {
        nodes: way.hosts.into_iter().map(node).collect(),
        weight: way.share,
    };
    let Wired { routes, known, .. } = wired;
    let ways = if demand.pairs.len() > most_spread {
        routing::one_path_each(routes, &known.ways, &demand.pairs, MAX_PATHS_PER_PAIR)
    } else {
        routing::all_paths(routes, &demand.pairs, MAX_PATHS_PER_PAIR)
    };
    let ways = ways.into_iter().map(|((from, to), ways)| {
        let ways = ways.into_iter().map(way);
        ((node(from), node(to)), ways.collect())
    });
    let mut carriage = ExplicitPaths {
        ways: ways.collect(),
        ..ExplicitPaths::default()
    };
    let carrying = Carrying {
        design: wired.design,
        known,
        place,
    };
    for group in reduced(iteration) {
        carrying.group(group, &mut carriage);
    }
    carriage
}

fn node(host: u32) -> NodeId {
    NodeId::from_index(host as usize)
}

/// The groups that reduce, scatter or gather.
fn reduced(iteration: &Iteration) -> BTreeSet<&[Rank]> {
    use reweave_common::iteration::Operation::{AllGather, AllReduce, ReduceScatter};
    let tasks = iteration.tasks().filter_map(|(_, task)| match task.work {
        TaskWork::Collective {
            operation: AllReduce | AllGather | ReduceScatter,
            group,
            ..
        } => Some(iteration.group(group)),
        _ => None,
    });
    tasks.collect()
}

struct Carrying<'c> {
    design: &'c Design,
    known: &'c Known,
    place: &'c [u32],
}

impl Carrying<'_> {
    fn group(&self, group: &[Rank], carriage: &mut ExplicitPaths) {
        let mut on_host: BTreeMap<u32, Vec<Rank>> = BTreeMap::new();
        for &rank in group {
            on_host
                .entry(self.place[rank.index()])
                .or_default()
                .push(rank);
        }
        if on_host.len() < 2 {
            return;
        }
        let whole = on_host.len() == self.design.wiring.hosts();
        if whole && self.design.is_all_rings() {
            let rings = self
                .design
                .rings
                .iter()
                .flat_map(|ring| self.both_ways(ring, &on_host));
            carriage.rings.insert(group.to_vec(), rings.collect());
            return;
        }
        let hosts: Vec<_> = on_host.keys().copied().collect();
        carriage
            .rings
            .insert(group.to_vec(), vec![self.nearest_ring(&hosts, &on_host)]);
        if let Some(shares) = self.known.forest(&self.design.wiring, hosts) {
            carriage
                .forests
                .insert(group.to_vec(), forest_of(&shares, &on_host));
        }
    }

    /// Returns a ring that goes from each host to the nearest remaining one.
    fn nearest_ring(&self, hosts: &[u32], on_host: &BTreeMap<u32, Vec<Rank>>) -> GroupRing {
        let wiring = &self.design.wiring;
        let distances = self.known.distances.get_or_init(|| Distances::of(wiring));
        let mut left = hosts.to_vec();
        let mut order = vec![left.remove(0)];
        while !left.is_empty() {
            let row = distances.row(order[order.len() - 1]);
            let nearest = (0..left.len()).min_by_key(|&nth| row[left[nth] as usize]);
            order.push(left.remove(nearest.unwrap_or(0)));
        }
        self.ring(&order, on_host)
    }

    fn both_ways(&self, hosts: &[u32], on_host: &BTreeMap<u32, Vec<Rank>>) -> [GroupRing; 2] {
        let turned: Vec<_> = hosts.iter().rev().copied().collect();
        [self.ring(hosts, on_host), self.ring(&turned, on_host)]
    }

    /// Around the hosts, through all ranks of each. Over the cable between neighbours where there is
    /// one, else as between any two.
    fn ring(&self, hosts: &[u32], on_host: &BTreeMap<u32, Vec<Rank>>) -> GroupRing {
        let members = hosts.iter().flat_map(|host| &on_host[host]).copied();
        let mut legs = Vec::with_capacity(hosts.len());
        for (nth, &host) in hosts.iter().enumerate() {
            legs.resize(legs.len() + on_host[&host].len() - 1, None);
            let next = hosts[(nth + 1) % hosts.len()];
            let joined = self.design.wiring.joins(host, next);
            legs.push(joined.then(|| [host, next].map(node).to_vec()));
        }
        GroupRing {
            members: members.collect(),
            legs,
            weight: 1.0,
        }
    }
}

/// Ranks of a host are attached to its first rank.
fn forest_of(shares: &forest::Shares, on_host: &BTreeMap<u32, Vec<Rank>>) -> Forest {
    let first = |host: u32| on_host[&host][0];
    let outside = shares.cables.iter().map(|&(ends, share)| ForestEdge {
        ends: ends.map(first),
        along: Some(ends.map(node).to_vec()),
        share,
    });
    let inside = on_host.values().flat_map(|ranks| {
        ranks[1..].iter().map(|&rank| ForestEdge {
            ends: [ranks[0], rank],
            along: None,
            share: 1.0,
        })
    });
    Forest {
        branches: outside.chain(inside).collect(),
        depth: shares.depth,
    }
}
