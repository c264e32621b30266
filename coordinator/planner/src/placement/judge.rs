//! How good an order is.

use std::collections::BTreeMap;

use reweave_common::fabric::Role;
use reweave_common::ids::NodeId;

use super::Request;
use crate::paths::Atlas;

/// What is judged first, and what decides between equals.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(super) struct Score {
    pub(super) slowest_s: f64,
    pub(super) crossing: f64,
}

pub(super) struct Judge {
    places: usize,
    /// By place: whom it sends to and from whom it receives, and how much.
    sends: Vec<Vec<(usize, f64)>>,
    receives: Vec<Vec<(usize, f64)>>,
    /// By host: its rack, and what its ports take, in bytes per second.
    racks: Vec<usize>,
    ports: Vec<f64>,
    /// By rack: what its uplinks take.
    uplinks: Vec<f64>,
    /// Measured pairs, in bytes per second.
    pairs: BTreeMap<(usize, usize), f64>,
}

/// What an order brings onto everything, kept while places are exchanged.
pub(super) struct Loads {
    out: Vec<f64>,
    into: Vec<f64>,
    pub(super) crossing: f64,
}

impl Judge {
    pub(super) fn new(request: &Request<'_>) -> Self {
        let (fabric, hosts) = (request.fabric, request.hosts);
        let atlas = Atlas::new(fabric);
        let doors: Vec<_> = hosts.iter().map(|&host| atlas.door(host)).collect();
        let mut known = doors.clone();
        known.sort_unstable();
        known.dedup();
        let rack = |door: &NodeId| known.binary_search(door).unwrap_or(0);
        let bytes_per_s = |bits: u64| bits as f64 / 8.0;
        let rate_where = |node: NodeId, counts: &dyn Fn(NodeId) -> bool| {
            let links = fabric.links_of(node).iter().map(|&link| fabric.link(link));
            let counted = links.filter(|link| counts(link.far(node).node));
            bytes_per_s(counted.map(|link| link.rate.bits_per_s()).sum())
        };
        let is_switch = |node: NodeId| fabric.node(node).role == Role::Switch;
        let index: BTreeMap<_, _> = hosts
            .iter()
            .enumerate()
            .map(|(at, host)| (*host, at))
            .collect();
        let pairs = request.pairs.iter().filter_map(|((from, to), bits)| {
            Some(((*index.get(from)?, *index.get(to)?), bits / 8.0))
        });
        let mut judge = Self {
            places: request.demand.places,
            sends: vec![Vec::new(); request.demand.places],
            receives: vec![Vec::new(); request.demand.places],
            racks: doors.iter().map(rack).collect(),
            ports: hosts
                .iter()
                .map(|&host| rate_where(host, &|_| true))
                .collect(),
            uplinks: known
                .iter()
                .map(|&door| rate_where(door, &is_switch))
                .collect(),
            pairs: pairs.collect(),
        };
        for (&(from, to), &bytes) in &request.demand.bytes {
            judge.sends[from].push((to, bytes));
            judge.receives[to].push((from, bytes));
        }
        judge
    }

    pub(super) fn rack(&self, host: usize) -> usize {
        self.racks[host]
    }

    pub(super) fn racks(&self) -> usize {
        self.uplinks.len()
    }

    /// Whom a place exchanges with, and how much.
    pub(super) fn partners(&self, place: usize) -> impl Iterator<Item = (usize, f64)> {
        let both = self
            .sends
            .get(place)
            .into_iter()
            .chain(self.receives.get(place));
        both.flatten().copied()
    }

    pub(super) fn loads(&self, order: &[usize]) -> Loads {
        let mut loads = Loads {
            out: vec![0.0; self.uplinks.len()],
            into: vec![0.0; self.uplinks.len()],
            crossing: 0.0,
        };
        for from in 0..self.places {
            for &(to, bytes) in &self.sends[from] {
                self.count(&mut loads, order, [from, to], bytes);
            }
        }
        loads
    }

    fn count(&self, loads: &mut Loads, order: &[usize], [from, to]: [usize; 2], bytes: f64) {
        let [out, into] = [from, to].map(|place| self.racks[order[place]]);
        if out != into {
            loads.out[out] += bytes;
            loads.into[into] += bytes;
            loads.crossing += bytes;
        }
    }

    /// Exchanges two places, and keeps the loads true.
    pub(super) fn exchange(&self, loads: &mut Loads, order: &mut [usize], [a, b]: [usize; 2]) {
        self.recount(loads, order, [a, b], -1.0);
        order.swap(a, b);
        self.recount(loads, order, [a, b], 1.0);
    }

    fn recount(&self, loads: &mut Loads, order: &[usize], [a, b]: [usize; 2], sign: f64) {
        for place in [a, b].into_iter().filter(|&place| place < self.places) {
            for &(to, bytes) in &self.sends[place] {
                self.count(loads, order, [place, to], sign * bytes);
            }
            let other = if place == a { b } else { a };
            // Between the two it was counted with what the other sends.
            for &(from, bytes) in self.receives[place]
                .iter()
                .filter(|(from, _)| *from != other)
            {
                self.count(loads, order, [from, place], sign * bytes);
            }
        }
    }

    pub(super) fn score(&self, order: &[usize]) -> Score {
        self.score_of(&self.loads(order), order)
    }

    pub(super) fn score_of(&self, loads: &Loads, order: &[usize]) -> Score {
        let uplinks = self.uplinks.iter().enumerate().map(|(rack, &rate)| {
            // Sums that came and went leave crumbs.
            let most = loads.out[rack].max(loads.into[rack]);
            if most < 1e-3 { 0.0 } else { most / rate }
        });
        let racks = uplinks.fold(0.0, f64::max);
        Score {
            slowest_s: racks
                .max(self.slowest_host(order))
                .max(self.slowest_pair(order)),
            crossing: loads.crossing.max(0.0),
        }
    }

    /// Where all ports are alike it does not matter who is where.
    fn slowest_host(&self, order: &[usize]) -> f64 {
        let sum = |pairs: &[(usize, f64)]| pairs.iter().map(|(_, bytes)| bytes).sum::<f64>();
        let time = |place: usize| {
            sum(&self.sends[place]).max(sum(&self.receives[place])) / self.ports[order[place]]
        };
        (0..self.places).map(time).fold(0.0, f64::max)
    }

    fn slowest_pair(&self, order: &[usize]) -> f64 {
        if self.pairs.is_empty() {
            return 0.0;
        }
        let times = (0..self.places).flat_map(|from| {
            self.sends[from].iter().filter_map(move |&(to, bytes)| {
                Some(bytes / self.pairs.get(&(order[from], order[to]))?)
            })
        });
        times.fold(0.0, f64::max)
    }
}
