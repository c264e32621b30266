//! The ways that single pairs take.

use std::collections::BTreeMap;

use super::splits::{Routes, Way};

/// By pair of hosts.
pub type Ways = BTreeMap<(u32, u32), Vec<Way>>;

/// For each pair that sends, its ways with their shares.
pub fn all_ways(routes: &Routes, demand: &BTreeMap<(u32, u32), f64>, most: usize) -> Ways {
    let ways = demand
        .keys()
        .map(|&pair| (pair, routes.ways(pair.0, pair.1, most)));
    ways.collect()
}

/// How often each pair may choose again, when it knows what the others chose.
const ROUNDS: usize = 4;

/// For each pair that sends, the one of its ways that leaves all lanes most alike.
pub fn one_way_each(routes: &Routes, demand: &BTreeMap<(u32, u32), f64>, most: usize) -> Ways {
    let mut loads = vec![0.0; routes.lanes().count()];
    let pair = |(&(from, to), &amount)| Choice::new(routes, [from, to], amount, most);
    let mut choices: Vec<_> = demand.iter().map(pair).collect();
    for _ in 0..ROUNDS {
        choices
            .iter_mut()
            .for_each(|choice| choice.renew(&mut loads));
    }
    let picked = choices.into_iter().filter_map(|mut choice| {
        let (way, _) = choice.ways.swap_remove(choice.picked?);
        let [from, to] = choice.ends;
        Some(((from, to), vec![Way { share: 1.0, ..way }]))
    });
    picked.collect()
}

/// A pair's ways with their lanes, and the one that it takes.
struct Choice {
    ends: [u32; 2],
    amount: f64,
    ways: Vec<(Way, Vec<u32>)>,
    picked: Option<usize>,
}

impl Choice {
    fn new(routes: &Routes, ends: [u32; 2], amount: f64, most: usize) -> Self {
        let ways = routes.ways(ends[0], ends[1], most).into_iter();
        Self {
            ends,
            amount,
            ways: ways
                .map(|way| (way.clone(), lanes_of(routes, &way)))
                .collect(),
            picked: None,
        }
    }

    fn renew(&mut self, loads: &mut [f64]) {
        if let Some(old) = self.picked {
            self.ways[old]
                .1
                .iter()
                .for_each(|&lane| loads[lane as usize] -= self.amount);
        }
        let added = |(_, lanes): &(Way, Vec<u32>)| -> f64 {
            lanes
                .iter()
                .map(|&lane| loads[lane as usize] * 2.0 + self.amount)
                .sum()
        };
        let squares: Vec<_> = self.ways.iter().map(added).collect();
        self.picked = (0..squares.len()).min_by(|&a, &b| squares[a].total_cmp(&squares[b]));
        if let Some(new) = self.picked {
            self.ways[new]
                .1
                .iter()
                .for_each(|&lane| loads[lane as usize] += self.amount);
        }
    }
}

fn lanes_of(routes: &Routes, way: &Way) -> Vec<u32> {
    let hops = way.hosts.windows(2);
    let lane = |hop: &[u32]| routes.lanes().between(hop[0], hop[1]);
    hops.filter_map(lane).map(|lane| lane as u32).collect()
}
