//! Fast sampling of ports, while the leader waits for their readings.

use std::collections::BTreeSet;
use std::time::Duration;

use reweave_common::ids::NodeId;
use reweave_common::instruction::FastSampling;

use super::DecisionContext;
use super::idle_proof::Port;
use crate::estimate::interval_timer::IntervalTimer;

const REQUEST_INTERVAL: Duration = Duration::from_secs(1);
/// Lasts until the next request, with a margin.
const CLOSE_SAMPLING: FastSampling = FastSampling { for_ms: 1500 };

#[derive(Debug, Clone, Default)]
pub(crate) struct CloseSampling {
    asks: IntervalTimer,
}

impl CloseSampling {
    /// Requests fast sampling, from connected agents only.
    pub(crate) fn ask<'p>(
        &mut self,
        turn: &mut DecisionContext<'_>,
        ports: impl IntoIterator<Item = &'p Port>,
    ) {
        if !self.asks.is_due(turn.known.now, REQUEST_INTERVAL) {
            return;
        }
        let nodes: BTreeSet<NodeId> = ports.into_iter().map(|(node, _)| *node).collect();
        let there = nodes.into_iter();
        for node in there.filter(|node| turn.known.ingest.is_connected(*node)) {
            turn.out.look_closely(node, CLOSE_SAMPLING);
        }
    }
}
