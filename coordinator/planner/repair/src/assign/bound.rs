//! Pools, and what no assignment gets below.

use std::collections::BTreeMap;

use super::state::State;
use super::{PathSet, Problem, is_at};
use crate::Together;

#[derive(Debug, Clone)]
pub(super) struct Pool {
    pub(super) hops: Vec<usize>,
    /// Load over capacity, if it were spread evenly.
    pub(super) mean: f64,
    /// Load over capacity that the fullest hop has at least.
    pub(super) bound: f64,
    /// Target of the peak: the bound, or the present value if the possible gain is too small.
    pub(super) goal: f64,
    /// Whether it has so large a number of flows of uneven sizes that it is unknown whether the
    /// bound can be met.
    pub(super) uneven: bool,
}

const MIN_LARGE_PROBLEM_FLOWS: usize = 512;

impl Pool {
    /// Load over capacity of the fullest of its hops.
    pub(super) fn fullest(&self, fullness: impl Fn(usize) -> f64) -> f64 {
        self.hops
            .iter()
            .map(|&hop| fullness(hop))
            .fold(0.0, f64::max)
    }

    /// Returns the fullness of the fullest hop, or the goal if that is higher: values below the goal count as equal.
    pub(super) fn peak(&self, fullness: impl Fn(usize) -> f64) -> f64 {
        self.fullest(fullness).max(self.goal)
    }
}

/// All pools that flows with a choice cross.
pub(super) fn pools(problem: &Problem) -> Vec<Pool> {
    let of_pair: Vec<_> = problem.pairs.iter().map(sets).collect();
    let mut weights: BTreeMap<&Vec<usize>, Vec<u64>> = BTreeMap::new();
    for flow in &problem.flows {
        for set in &of_pair[flow.pair] {
            weights.entry(set).or_default().push(flow.weight);
        }
    }
    let joined = joined(problem.capacities.len(), weights);
    let pools = joined.into_iter().map(|sets| pool(problem, &sets));
    let chosen_among = |pool: &Pool| pool.hops.len() > 1 && pool.mean > 0.0;
    pools.filter(chosen_among).collect()
}

/// Returns the sets of hops at the same place of all paths, place by place.
fn sets(ways: &PathSet) -> Vec<Vec<usize>> {
    let length = ways.iter().next().map_or(0, <[usize]>::len);
    let set = |place: usize| {
        let mut hops: Vec<_> = ways.iter().map(|way| way[place]).collect();
        hops.sort_unstable();
        hops.dedup();
        hops
    };
    (0..length).map(set).collect()
}

/// A set of hops, and the weights of the flows that cross one of them.
type Crossed<'s> = (&'s Vec<usize>, Vec<u64>);

/// Joins sets that share hops, directly or indirectly: whatever crosses one of these hops crosses one of them on any
/// path, which holds for no single overlapping set.
fn joined<'s>(hops: usize, weights: BTreeMap<&'s Vec<usize>, Vec<u64>>) -> Vec<Vec<Crossed<'s>>> {
    let mut together = Together::new(hops);
    for set in weights.keys() {
        for &hop in &set[1..] {
            together.join(set[0], hop);
        }
    }
    let mut joined: BTreeMap<usize, Vec<_>> = BTreeMap::new();
    for crossed in weights {
        let first = together.first(crossed.0[0]);
        joined.entry(first).or_default().push(crossed);
    }
    joined.into_values().collect()
}

fn pool(problem: &Problem, sets: &[Crossed<'_>]) -> Pool {
    let mut hops = sets
        .iter()
        .flat_map(|(set, _)| *set)
        .copied()
        .collect::<Vec<_>>();
    hops.sort_unstable();
    hops.dedup();
    let of_base = |&hop: &usize| problem.base[hop] as f64 / problem.capacities[hop];
    let within = |outer: &[usize]| {
        let inside = |set: &[usize]| set.iter().all(|hop| outer.binary_search(hop).is_ok());
        let sets = sets.iter().filter(|(set, _)| inside(set));
        sets.flat_map(|(_, weights)| weights)
            .copied()
            .collect::<Vec<_>>()
    };
    // Flows that can use only some of the hops must share those.
    let some = sets.iter().filter(|(set, _)| set.len() < hops.len());
    let some = some.map(|(set, _)| bound(problem, set, within(set)));
    let weights = within(&hops);
    let uneven = weights.iter().any(|weight| *weight != weights[0]);
    let uneven = uneven && problem.flows.len() > MIN_LARGE_PROBLEM_FLOWS;
    let mean = mean(problem, &hops, &weights);
    let all = bound(problem, &hops, weights);
    let bound = some.fold(all, f64::max).max(problem.enough);
    let bound = hops.iter().map(of_base).fold(bound, f64::max);
    Pool {
        hops,
        mean,
        bound,
        goal: bound,
        uneven,
    }
}

fn mean(problem: &Problem, hops: &[usize], weights: &[u64]) -> f64 {
    let capacity: f64 = hops.iter().map(|&hop| problem.capacities[hop]).sum();
    let base: u64 = hops.iter().map(|&hop| problem.base[hop]).sum();
    (weights.iter().sum::<u64>() + base) as f64 / capacity
}

/// Returns a lower bound on the fullest of these hops, which all weights must cross.
fn bound(problem: &Problem, hops: &[usize], mut weights: Vec<u64>) -> f64 {
    let capacities = hops.iter().map(|&hop| problem.capacities[hop]);
    let widest = capacities.fold(0.0, f64::max);
    weights.sort_unstable_by(|a, b| b.cmp(a));
    let crowded = crowded(&weights, hops.len()) as f64 / widest;
    let in_parts = in_whole_parts(problem, hops, &weights);
    mean(problem, hops, &weights).max(crowded).max(in_parts)
}

/// If all sizes are multiples of one size, so are the loads of hops of one width: the fullest hop has at least the
/// least multiple that is not below the mean.
fn in_whole_parts(problem: &Problem, hops: &[usize], weights: &[u64]) -> f64 {
    let capacity = problem.capacities[hops[0]];
    if hops.iter().any(|&hop| problem.capacities[hop] != capacity) {
        return 0.0;
    }
    let all = || {
        hops.iter()
            .map(|&hop| problem.base[hop])
            .chain(weights.iter().copied())
    };
    let part = all().fold(0, gcd).max(1);
    let total: u64 = all().sum();
    let parts = (total / part).div_ceil(hops.len() as u64);
    (parts * part) as f64 / capacity
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// With k n + 1 flows on n hops, k + 1 flows share a hop: at best the smallest of them.
fn crowded(descending: &[u64], hops: usize) -> u64 {
    let meeting = |k: usize| {
        let among = descending.get(..k * hops + 1)?;
        Some(among[among.len() - (k + 1)..].iter().sum())
    };
    (0..).map_while(meeting).max().unwrap_or(0)
}

/// Returns a lower bound on the moves: flows that must leave hops that are fuller than at the end. A flow has one hop
/// at the first place of its path and one at the last, so the counts add up.
pub(super) fn least_moves(problem: &Problem, state: &State<'_>) -> usize {
    let first = |way: &[usize]| way.first().copied();
    let last = |way: &[usize]| way.last().copied();
    let of = |place: &dyn Fn(&[usize]) -> Option<usize>| leaving(problem, state, place);
    of(&first).max(of(&last))
}

fn leaving(
    problem: &Problem,
    state: &State<'_>,
    place: &dyn Fn(&[usize]) -> Option<usize>,
) -> usize {
    // By hop: weights of the flows that have it at this place, and number of flows that have it at another.
    let mut there: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
    let mut elsewhere = vec![false; problem.capacities.len()];
    for flow in &problem.flows {
        let way = &problem.pairs[flow.pair][flow.way];
        // A flow without a path may have been put on any.
        if flow.homeless {
            continue;
        }
        let here = place(way);
        if let Some(hop) = here {
            there.entry(hop).or_default().push(flow.weight);
        }
        for &hop in way.iter().filter(|&&hop| Some(hop) != here) {
            elsewhere[hop] = true;
        }
    }
    let needed = there.into_iter().filter(|(hop, _)| !elsewhere[*hop]);
    let needed = needed.map(|(hop, weights)| at_least(problem, hop, weights, state.allowed(hop)));
    needed.sum()
}

fn at_least(problem: &Problem, hop: usize, mut weights: Vec<u64>, allowed: f64) -> usize {
    weights.sort_unstable_by(|a, b| b.cmp(a));
    let mut load = problem.base[hop] + weights.iter().sum::<u64>();
    let fits = |load: u64| is_at(load as f64 / problem.capacities[hop], allowed);
    let mut leaving = 0;
    for weight in weights {
        if fits(load) {
            break;
        }
        load -= weight;
        leaving += 1;
    }
    leaving
}
