//! What hosts say of the way to each other.

use std::collections::BTreeMap;

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
    let mut worst: Vec<_> = pairs
        .iter()
        .map(|((from, to), tally)| pair(known, *from, *to, tally))
        .collect();
    worst.sort_by(|a, b| {
        badness(b)
            .partial_cmp(&badness(a))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    worst.truncate(MOST_PAIRS);
    ProbeStatus {
        pairs: pairs.len(),
        all: (!pairs.is_empty()).then(|| Summary::from(&all)),
        worst,
    }
}

/// All paths from one host to another together.
pub(super) fn pairs(known: Known<'_>) -> BTreeMap<(NodeId, NodeId), Tally> {
    let mut pairs: BTreeMap<_, Tally> = BTreeMap::new();
    for (from, node) in known.ingest.observations().nodes() {
        for (flow, window) in &node.probes {
            if let Some(to) = known.ingest.owner(*flow.destination.ip()) {
                pairs.entry((from, to)).or_default().merge(&window.tally());
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

/// First by the loss that there is for sure, then by the time that one in a hundred takes.
fn badness(pair: &PairStatus) -> [f64; 2] {
    let loss = pair.summary.loss.map_or(0.0, |loss| loss.least);
    [
        loss,
        pair.summary.network_us.map_or(0.0, |spread| spread.p99),
    ]
}
