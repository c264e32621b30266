//! Pools, and what no assignment gets below.

use std::collections::BTreeMap;

use super::state::State;
use super::{Problem, is_at};

#[derive(Debug, Clone)]
pub(super) struct Pool {
    pub(super) hops: Vec<usize>,
    /// Load over capacity, if it were spread evenly.
    pub(super) mean: f64,
    /// Load over capacity that the fullest hop has at least.
    pub(super) bound: f64,
    /// Whether it has so many flows of uneven sizes that nobody knows whether the bound can be met.
    pub(super) uneven: bool,
}

const MANY_FLOWS: usize = 512;

/// All pools that flows with a choice cross.
pub(super) fn pools(problem: &Problem) -> Vec<Pool> {
    let of_pair: Vec<_> = problem.pairs.iter().map(|ways| sets(ways)).collect();
    let mut weights: BTreeMap<&Vec<usize>, Vec<u64>> = BTreeMap::new();
    for flow in &problem.flows {
        for set in &of_pair[flow.pair] {
            weights.entry(set).or_default().push(flow.weight);
        }
    }
    let carrying = weights.into_iter();
    let pool = |(hops, weights): (&Vec<usize>, Vec<u64>)| pool(problem, hops, weights);
    carrying.map(pool).filter(|pool| pool.mean > 0.0).collect()
}

/// The hops in the same place of all ways, place by place; those that all ways share are no choice.
fn sets(ways: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let shortest = ways.iter().map(Vec::len).min().unwrap_or(0);
    let set = |place: usize| {
        let mut hops: Vec<_> = ways.iter().map(|way| way[place]).collect();
        hops.sort_unstable();
        hops.dedup();
        hops
    };
    (0..shortest).map(set).filter(|set| set.len() > 1).collect()
}

fn pool(problem: &Problem, hops: &[usize], mut weights: Vec<u64>) -> Pool {
    let capacity = |hop: &usize| problem.capacities[*hop];
    let all: f64 = hops.iter().map(capacity).sum();
    let widest = hops.iter().map(capacity).fold(0.0, f64::max);
    let base: u64 = hops.iter().map(|&hop| problem.base[hop]).sum();
    let of_base = hops
        .iter()
        .map(|hop| problem.base[*hop] as f64 / capacity(hop));
    weights.sort_unstable_by(|a, b| b.cmp(a));
    let mean = (weights.iter().sum::<u64>() + base) as f64 / all;
    let crowded = crowded(&weights, hops.len()) as f64 / widest;
    let bound = of_base
        .fold(mean.max(crowded), f64::max)
        .max(in_whole_parts(problem, hops, &weights))
        .max(problem.enough);
    let uneven = weights.first() != weights.last() && problem.flows.len() > MANY_FLOWS;
    Pool {
        hops: hops.to_vec(),
        mean,
        bound,
        uneven,
    }
}

/// Where all sizes are multiples of one, so is what hops of one width carry: the fullest has the
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

/// Of k n + 1 flows on n hops, k + 1 meet: at best the smallest of them.
fn crowded(descending: &[u64], hops: usize) -> u64 {
    let meeting = |k: usize| {
        let among = descending.get(..k * hops + 1)?;
        Some(among[among.len() - (k + 1)..].iter().sum())
    };
    (0..).map_while(meeting).max().unwrap_or(0)
}

/// So many flows must leave the hops that are fuller than they end up, at least. A flow has one hop
/// at the first place of its way and one at the last, so what leaves these hops adds up.
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
    // By hop: weights of those that have it there, and how many have it elsewhere.
    let mut there: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
    let mut elsewhere = vec![false; problem.capacities.len()];
    for flow in &problem.flows {
        let way = &problem.pairs[flow.pair][flow.way];
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
