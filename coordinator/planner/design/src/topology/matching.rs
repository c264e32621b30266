//! Cables for what single hosts send each other.

use std::collections::BTreeMap;

use mwmatching::{Matching, SENTINEL};

use super::demand::Demand;
use super::limits::Limits;
use super::wiring::{Pair, Wiring, pair};

/// Bytes of unordered pairs.
pub(super) type Weights = BTreeMap<Pair, f64>;

/// The heaviest pair weighs so much: the matching counts in whole numbers.
const MAX_PAIR_WEIGHT: f64 = 1e6;
/// A matching takes the cube of the hosts; of more than these, only the heaviest pairs are looked at.
const MAX_HOSTS: usize = 512;
const MAX_PAIRS_PER_HOST: usize = 16;

pub(super) fn weights(demand: &Demand) -> Weights {
    let mut weights = Weights::new();
    for (&(from, to), &bytes) in &demand.pairs {
        *weights.entry(pair(from, to)).or_default() += bytes;
    }
    weights
}

/// Returns a matching of maximum weight. Only hosts with a free port are matched, and only pairs that may be joined and
/// are not joined yet.
pub(super) fn heaviest(weights: &Weights, wiring: &Wiring, limits: &Limits) -> Vec<Pair> {
    let has_port = |host: u32| wiring.degree(host) < limits.ports[host as usize];
    let fits =
        |&[a, b]: &Pair| has_port(a) && has_port(b) && limits.allow(a, b) && !wiring.joins(a, b);
    let fitting = weights
        .iter()
        .filter(|(pair, bytes)| fits(pair) && **bytes > 0.0);
    let mut fitting: Vec<_> = fitting.map(|(&pair, &bytes)| (pair, bytes)).collect();
    fitting.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    if wiring.hosts() > MAX_HOSTS {
        fitting.truncate(wiring.hosts() * MAX_PAIRS_PER_HOST);
    }
    let Some(&(_, most)) = fitting.first() else {
        return Vec::new();
    };
    let whole = |bytes: f64| ((bytes / most * MAX_PAIR_WEIGHT).round() as i32).max(1);
    let edges = fitting
        .iter()
        .map(|&([a, b], bytes)| (a as usize, b as usize, whole(bytes)));
    let mates = Matching::new(edges.collect()).solve();
    let matched = mates
        .iter()
        .enumerate()
        .filter(|(host, mate)| **mate != SENTINEL && host < *mate);
    matched
        .map(|(host, &mate)| [host as u32, mate as u32])
        .collect()
}

/// Adds matchings one after another. The weight of a joined pair is halved, so that other pairs are served.
pub(super) fn add(wiring: &mut Wiring, weights: &mut Weights, rounds: usize, limits: &Limits) {
    for _ in 0..rounds {
        for [a, b] in heaviest(weights, wiring, limits) {
            wiring.join(a, b);
            if let Some(bytes) = weights.get_mut(&[a, b]) {
                *bytes /= 2.0;
            }
        }
    }
}

/// Returns a ring through all hosts with much of the demand on its cables: a heaviest matching, and then the heaviest
/// fitting pairs, one by one. Remaining pieces are joined in the order of their first hosts.
pub(super) fn heavy_ring(weights: &Weights, wiring: &Wiring, limits: &Limits) -> Vec<u32> {
    let mut chains = Chains::new(wiring.hosts());
    for ends in heaviest(weights, wiring, limits) {
        chains.join(ends);
    }
    let fits = |[a, b]: Pair| limits.allow(a, b) && !wiring.joins(a, b);
    let mut rest: Vec<_> = weights.iter().filter(|(pair, _)| fits(**pair)).collect();
    rest.sort_by(|a, b| b.1.total_cmp(a.1).then_with(|| a.0.cmp(b.0)));
    for (&ends, _) in rest {
        chains.join(ends);
    }
    chains.in_a_row()
}

/// Hosts in chains that grow together.
struct Chains {
    next: Vec<Vec<u32>>,
    /// Other end of the chain that ends at each host.
    far: Vec<u32>,
}

impl Chains {
    fn new(hosts: usize) -> Self {
        Self {
            next: vec![Vec::new(); hosts],
            far: (0..hosts as u32).collect(),
        }
    }

    /// Joins two hosts that are ends of different chains.
    fn join(&mut self, [a, b]: Pair) {
        let is_end = |host: u32| self.next[host as usize].len() < 2;
        if !is_end(a) || !is_end(b) || self.far[a as usize] == b {
            return;
        }
        let [far_a, far_b] = [a, b].map(|end| self.far[end as usize]);
        self.next[a as usize].push(b);
        self.next[b as usize].push(a);
        self.far[far_a as usize] = far_b;
        self.far[far_b as usize] = far_a;
    }

    fn in_a_row(&self) -> Vec<u32> {
        let mut met = vec![false; self.next.len()];
        let mut row = Vec::with_capacity(met.len());
        for first in 0..self.next.len() as u32 {
            let mut at =
                Some(first).filter(|&it| !met[it as usize] && self.next[it as usize].len() < 2);
            while let Some(host) = at {
                met[host as usize] = true;
                row.push(host);
                at = self.next[host as usize]
                    .iter()
                    .copied()
                    .find(|&it| !met[it as usize]);
            }
        }
        row
    }
}
