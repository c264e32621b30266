//! What hosts say of the way to each other.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use reweave_common::ids::NodeId;
use reweave_common::operator::{PairStatus, ProbeStatus};
use reweave_common::probing::{Summary, Tally};

use crate::model::Known;

/// An answer has to fit into one message, however large the cluster is.
const MOST_PAIRS: usize = 256;

pub(super) fn probes(known: Known<'_>) -> ProbeStatus {
    let pairs = pairs(known);
    let mut all = Tally::default();
    pairs.values().for_each(|tally| all.merge(tally));
    // There may be hundreds of thousands, of which few are told.
    let worse = |(one, _): &(Badness, _), other: &(Badness, _)| other.0.total_cmp(one);
    let mut ranked: Vec<_> = pairs
        .iter()
        .map(|pair| (Badness::of(pair.1), pair))
        .collect();
    if ranked.len() > MOST_PAIRS {
        ranked.select_nth_unstable_by(MOST_PAIRS, worse);
        ranked.truncate(MOST_PAIRS);
    }
    ranked.sort_by(worse);
    let worst = ranked
        .into_iter()
        .map(|(_, ((from, to), tally))| pair(known, *from, *to, tally));
    ProbeStatus {
        pairs: pairs.len(),
        all: (!pairs.is_empty()).then(|| Summary::from(&all)),
        worst: worst.collect(),
    }
}

/// All paths from one host to another together.
pub(super) fn pairs(known: Known<'_>) -> BTreeMap<(NodeId, NodeId), Tally> {
    let mut pairs: BTreeMap<_, Tally> = BTreeMap::new();
    for (from, node) in known.ingest.observations().nodes() {
        for (flow, window) in &node.probes {
            if let Some(to) = known.ingest.owner(*flow.destination.ip()) {
                match pairs.entry((from, to)) {
                    Entry::Vacant(none) => drop(none.insert(window.tally())),
                    Entry::Occupied(mut some) => window.add_to(some.get_mut()),
                }
            }
        }
    }
    pairs
}

fn pair(known: Known<'_>, from: NodeId, to: NodeId, tally: &Tally) -> PairStatus {
    PairStatus {
        from: known.fabric.name(from).to_owned(),
        to: known.fabric.name(to).to_owned(),
        summary: Summary::from(tally),
    }
}

/// The loss that there is for sure, and then the time that one in a hundred takes.
struct Badness(f64, Duration);

impl Badness {
    fn of(tally: &Tally) -> Self {
        let loss = tally.loss().map_or(0.0, |loss| loss.least);
        Self(loss, tally.network.quantile(0.99).unwrap_or_default())
    }

    fn total_cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0).then(self.1.cmp(&other.1))
    }
}
