//! What each agent shall look at: the paths of its elephants that are unknown or old, and the way
//! to the hosts they go to.

use std::collections::BTreeMap;

use reweave_common::flow::FlowKey;
use reweave_common::ids::NodeId;
use reweave_common::instruction::Watch;
use reweave_common::moment::Moment;
use reweave_common::snapshot::FlowState;

use crate::effect::Outbox;
use crate::model::Known;

/// A host traces no more flows at once: routers answer few probes a second.
const MOST_TRACES: usize = 64;
const MOST_PINGS: usize = 64;

/// What each agent was asked for last.
#[derive(Debug, Default)]
pub(crate) struct Watching {
    asked: BTreeMap<NodeId, Watch>,
    looked: Option<Moment>,
}

impl Watching {
    /// A new session begins with nothing to look at.
    pub(crate) fn handle_connected(&mut self, node: NodeId) {
        self.asked.remove(&node);
    }

    /// Looks from time to time, and asks where something else is wanted than before.
    pub(crate) fn advance(&mut self, known: Known<'_>, out: &mut Outbox) {
        let every = known.policy.look_every;
        if self
            .looked
            .is_some_and(|looked| known.now.since(looked) < every)
        {
            return;
        }
        self.looked = Some(known.now);
        let mut wanted = wanted(known);
        for node in known.fabric.nodes().map(|(node, _)| node) {
            let wanted = wanted.remove(&node).unwrap_or_default();
            let asked = self.asked.entry(node).or_default();
            if *asked != wanted && known.ingest.is_connected(node) {
                asked.clone_from(&wanted);
                out.watch(node, wanted);
            }
        }
    }
}

fn wanted(known: Known<'_>) -> BTreeMap<NodeId, Watch> {
    let mut flows = known.picture().flows();
    flows.retain(|state| known.is_elephant(state.rate));
    flows.sort_by_key(|state| std::cmp::Reverse(state.rate));
    let mut wanted: BTreeMap<_, Watch> = BTreeMap::new();
    for state in &flows {
        let watch = wanted.entry(state.from).or_default();
        if watch.trace.len() < MOST_TRACES && needs_trace(known, state) {
            watch.trace.push(state.flow);
        }
        let peer = *state.flow.destination.ip();
        if watch.ping.len() < MOST_PINGS && !watch.ping.contains(&peer) {
            watch.ping.push(peer);
        }
    }
    wanted
        .into_iter()
        .map(|(node, watch)| (node, in_order(watch)))
        .collect()
}

/// The same wishes are the same watch, whoever is fastest just now.
fn in_order(mut watch: Watch) -> Watch {
    watch.trace.sort_unstable();
    watch.ping.sort_unstable();
    watch
}

fn needs_trace(known: Known<'_>, state: &FlowState) -> bool {
    state.path.is_none() || is_old(known, state.from, &state.flow)
}

fn is_old(known: Known<'_>, sender: NodeId, flow: &FlowKey) -> bool {
    let observed = known.ingest.observations().node(sender);
    let path = observed.and_then(|observed| observed.paths.get(flow));
    path.is_none_or(|path| !path.is_fresh(known.now, known.policy.trace_every))
}
