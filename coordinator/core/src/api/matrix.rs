//! Latency, loss and bandwidth for every pair of hosts.

use std::collections::BTreeMap;

use reweave_common::bandwidth::Bandwidth;
use reweave_common::ids::NodeId;
use reweave_common::operator::{Matrix, MatrixCell};
use reweave_common::probing::{ProbeTally, Spread};

use super::probes::pairs;
use crate::model::world::Measurements;

type Pair = (NodeId, NodeId);

pub(super) fn matrix(known: Measurements<'_>, most: u32) -> Matrix {
    let hosts: Vec<NodeId> = known.fabric.endpoints().collect();
    let places = hosts.iter().zip(0..);
    let places: BTreeMap<NodeId, u32> = places.map(|(&host, place)| (host, place)).collect();
    let cells = cells(known);
    let placed = cells.into_iter().filter_map(|((from, to), cell)| {
        let (from, to) = (*places.get(&from)?, *places.get(&to)?);
        Some(MatrixCell { from, to, ..cell })
    });
    Matrix {
        cells: worst(placed.collect(), most),
        hosts: hosts
            .iter()
            .map(|&host| known.fabric.name(host).to_owned())
            .collect(),
    }
}

/// The worst cells, by loss and then by latency.
fn worst(mut cells: Vec<MatrixCell>, most: u32) -> Vec<MatrixCell> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    if cells.len() > most {
        cells.sort_by_key(|cell| std::cmp::Reverse(badness(cell)));
        cells.truncate(most);
    }
    cells
}

fn badness(cell: &MatrixCell) -> [i64; 2] {
    let figures = [cell.lost_share, cell.median_us];
    figures.map(|figure| figure.map_or(-1, |it| (it * 1e3) as i64))
}

fn cells(known: Measurements<'_>) -> BTreeMap<Pair, MatrixCell> {
    let mut cells: BTreeMap<Pair, MatrixCell> = BTreeMap::new();
    for (pair, tally) in pairs(known) {
        probed(cells.entry(pair).or_default(), &tally);
    }
    for (pair, rate_bits_per_s) in rates(known) {
        cells.entry(pair).or_default().rate_bits_per_s = Some(rate_bits_per_s);
    }
    cells
}

fn probed(cell: &mut MatrixCell, tally: &ProbeTally) {
    let network = Spread::of(tally.network());
    cell.median_us = network.map(|spread| spread.median);
    cell.p99_us = network.map(|spread| spread.p99);
    let sent = tally.sent();
    cell.lost_share = (sent > 0).then(|| tally.lost.count() as f64 / sent as f64);
}

/// The slowest measured path from each host to each other.
fn rates(known: Measurements<'_>) -> BTreeMap<Pair, u64> {
    let mut rates = BTreeMap::new();
    for (from, node) in known.ingest.observations().nodes() {
        for aged in node.bandwidths.values() {
            let reading = &aged.value;
            let to = known.ingest.owner(*reading.flow.destination.ip());
            if let (Some(to), Bandwidth::Known { rate, .. }) = (to, &reading.bandwidth) {
                let rate = rate.bits_per_s();
                let narrowest = rates.entry((from, to)).or_insert(rate);
                *narrowest = rate.min(*narrowest);
            }
        }
    }
    rates
}
