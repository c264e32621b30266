//! RDMA latency and bandwidth between hosts, as their agents report them.

use std::collections::BTreeMap;
use std::time::Duration;

use reweave_common::ids::NodeId;
use reweave_common::observations::TimedReading;
use reweave_common::operator::RdmaStatus;
use reweave_common::rdma::{RdmaReading, Transport};

use crate::log::millis::millis;
use crate::model::world::Measurements;

/// An answer has to fit into one message, however large the cluster is.
const MAX_PAIRS: usize = 256;

pub(super) fn rdma(known: Measurements<'_>) -> Vec<RdmaStatus> {
    let mut pairs: BTreeMap<(NodeId, NodeId), RdmaStatus> = BTreeMap::new();
    for (from, node) in known.ingest.observations().nodes() {
        for ((peer, _), reading) in &node.host.rdma {
            let Some(to) = known.ingest.owner(*peer) else {
                continue;
            };
            let pair = pairs.entry((from, to)).or_insert_with(|| RdmaStatus {
                from: known.fabric.name(from).to_owned(),
                to: known.fabric.name(to).to_owned(),
                ..RdmaStatus::default()
            });
            note(pair, reading, known);
        }
    }
    let mut pairs: Vec<_> = pairs.into_values().collect();
    pairs.sort_by(|a, b| slowness(b).total_cmp(&slowness(a)));
    pairs.truncate(MAX_PAIRS);
    pairs
}

/// Of several NICs, the slowest counts.
fn note(pair: &mut RdmaStatus, reading: &TimedReading<RdmaReading>, known: Measurements<'_>) {
    pair.age_ms = pair.age_ms.max(millis(reading.age(known.now)));
    match &reading.value {
        RdmaReading::Latency(latency) => {
            pair.sent = pair.sent.saturating_add(latency.sent);
            pair.lost = pair.lost.saturating_add(latency.lost);
            let median = latency.network.map(|times| micros(*times.median));
            let place = match latency.transport {
                Transport::Ud => &mut pair.ud_us,
                Transport::Rc => &mut pair.rc_us,
            };
            *place = [*place, median].into_iter().flatten().reduce(f64::max);
        }
        RdmaReading::Bandwidth(bandwidth) => {
            let rates = [pair.rate_bits_per_s, Some(bandwidth.rate())];
            pair.rate_bits_per_s = rates.into_iter().flatten().min();
        }
    }
}

fn micros(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e3
}

fn slowness(pair: &RdmaStatus) -> f64 {
    pair.rc_us.or(pair.ud_us).unwrap_or(0.0)
}
