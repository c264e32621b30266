//! Paths of single pairs.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::splits::{Routes, WeightedPath};

/// Paths by pair of hosts.
pub type PathsByPair = BTreeMap<(u32, u32), Vec<WeightedPath>>;

/// Returns the paths of each sending pair, with their shares.
pub fn all_paths(routes: &Routes, demand: &BTreeMap<(u32, u32), f64>, most: usize) -> PathsByPair {
    let ways = demand
        .keys()
        .map(|&pair| (pair, routes.ways(pair.0, pair.1, most)));
    ways.collect()
}

/// Cached paths between two hosts, as lanes. Routes have many pairs, and a caller requests the same ones again.
#[derive(Debug)]
pub struct Known {
    rows: Vec<OnceLock<PathsFromHost>>,
}

/// Paths by destination.
type PathsFromHost = Vec<OnceLock<Vec<Vec<u32>>>>;

impl Known {
    pub fn nothing(hosts: usize) -> Self {
        let rows = std::iter::repeat_with(OnceLock::new).take(hosts);
        Self {
            rows: rows.collect(),
        }
    }

    fn ways(&self, routes: &Routes, [from, to]: [u32; 2], most: usize) -> &[Vec<u32>] {
        let hosts = self.rows.len();
        let unknown = || std::iter::repeat_with(OnceLock::new).take(hosts).collect();
        let row: &PathsFromHost = self.rows[from as usize].get_or_init(unknown);
        let ways = || routes.hops(from, to, most).into_iter();
        row[to as usize].get_or_init(|| ways().map(|(lanes, _)| lanes).collect())
    }
}

/// Number of rounds in which each pair chooses again, given the choices of the others.
const CHOICE_ROUNDS: usize = 4;

/// Returns one path for each sending pair, so that lanes are loaded evenly. `known` must be from the same routes with
/// the same maximum number of paths.
pub fn one_path_each(
    routes: &Routes,
    known: &Known,
    demand: &BTreeMap<(u32, u32), f64>,
    most: usize,
) -> PathsByPair {
    let mut loads = vec![0.0; routes.lanes().count()];
    let mut choices: Vec<_> = demand
        .iter()
        .map(|(&(from, to), &amount)| Choice {
            ends: [from, to],
            amount,
            ways: known.ways(routes, [from, to], most),
            picked: None,
        })
        .collect();
    for _ in 0..CHOICE_ROUNDS {
        choices
            .iter_mut()
            .for_each(|choice| choice.renew(&mut loads));
    }
    let way = |choice: &Choice<'_>| {
        let ends = choice.picked()?.iter();
        let ends = ends.map(|&lane| routes.lanes().end(lane as usize));
        let hosts = std::iter::once(choice.ends[0]).chain(ends).collect();
        Some((choice.ends.into(), vec![WeightedPath { hosts, share: 1.0 }]))
    };
    choices.iter().filter_map(way).collect()
}

/// Paths of a pair as lanes, and the chosen one.
struct Choice<'k> {
    ends: [u32; 2],
    amount: f64,
    ways: &'k [Vec<u32>],
    picked: Option<usize>,
}

impl Choice<'_> {
    fn picked(&self) -> Option<&Vec<u32>> {
        self.picked.map(|nth| &self.ways[nth])
    }

    fn renew(&mut self, loads: &mut [f64]) {
        for &lane in self.picked().into_iter().flatten() {
            loads[lane as usize] -= self.amount;
        }
        let added = |lanes: &Vec<u32>| -> f64 {
            let lanes = lanes.iter().map(|&lane| loads[lane as usize]);
            lanes.map(|load| load * 2.0 + self.amount).sum()
        };
        let squares = self.ways.iter().map(added).enumerate();
        let least = squares.min_by(|a, b| a.1.total_cmp(&b.1));
        self.picked = least.map(|(nth, _)| nth);
        for &lane in self.picked().into_iter().flatten() {
            loads[lane as usize] += self.amount;
        }
    }
}
