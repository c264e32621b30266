//! Latency, loss and bandwidth for every pair of hosts: between all their NICs for training, or those of one rail.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use reweave_common::bandwidth::Bandwidth;
use reweave_common::flow::FlowKey;
use reweave_common::ids::NodeId;
use reweave_common::operator::{Matrix, MatrixCell, Response};
use reweave_common::probing::{ProbeTally, Spread};

use crate::model::world::World;

type Pair = (NodeId, NodeId);

/// The flows whose measurements are shown.
enum Shown {
    All,
    /// Those between NICs of one rail with these addresses.
    Between(BTreeSet<Ipv4Addr>),
}

impl Shown {
    fn has(&self, world: &World<'_>, flow: &FlowKey) -> bool {
        match self {
            Self::All => world.is_of_training(flow),
            Self::Between(addresses) => {
                let mut ends = [flow.source, flow.destination].into_iter();
                ends.all(|end| addresses.contains(end.ip()))
            }
        }
    }
}

pub(super) fn matrix(world: &World<'_>, rail: Option<u16>, most: u32) -> Response {
    let known = world.known;
    let shown = rail.map(|rail| Shown::Between(world.addresses_on(rail)));
    let hosts: Vec<NodeId> = known.fabric.endpoints().collect();
    let places = hosts.iter().zip(0..);
    let places: BTreeMap<NodeId, u32> = places.map(|(&host, place)| (host, place)).collect();
    let cells = cells(world, &shown.unwrap_or(Shown::All));
    let placed = cells.into_iter().filter_map(|((from, to), cell)| {
        let (from, to) = (*places.get(&from)?, *places.get(&to)?);
        Some(MatrixCell { from, to, ..cell })
    });
    Response::Matrix(Matrix {
        cells: worst(placed.collect(), most),
        hosts: hosts
            .iter()
            .map(|&host| known.fabric.name(host).to_owned())
            .collect(),
    })
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

fn cells(world: &World<'_>, shown: &Shown) -> BTreeMap<Pair, MatrixCell> {
    let mut cells: BTreeMap<Pair, MatrixCell> = BTreeMap::new();
    for (pair, tally) in tallies(world, shown) {
        probed(cells.entry(pair).or_default(), &tally);
    }
    for (pair, rate_bits_per_s) in rates(world, shown) {
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

/// The probes from each host to each other, all paths together.
fn tallies(world: &World<'_>, shown: &Shown) -> BTreeMap<Pair, ProbeTally> {
    let known = world.known;
    let mut tallies: BTreeMap<Pair, ProbeTally> = BTreeMap::new();
    for (from, node) in known.ingest.observations().nodes() {
        let probes = node.probes.iter();
        for (flow, window) in probes.filter(|(flow, _)| shown.has(world, flow)) {
            if let Some(to) = known.ingest.owner(*flow.destination.ip()) {
                window.add_to(tallies.entry((from, to)).or_default());
            }
        }
    }
    tallies
}

/// The slowest measured path from each host to each other.
fn rates(world: &World<'_>, shown: &Shown) -> BTreeMap<Pair, u64> {
    let known = world.known;
    let mut rates = BTreeMap::new();
    for (from, node) in known.ingest.observations().nodes() {
        for aged in node.bandwidths.values() {
            let reading = &aged.value;
            if !shown.has(world, &reading.flow) {
                continue;
            }
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
