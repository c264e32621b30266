//! What each agent traces: the paths of its elephants, the return paths of those that it receives, and the paths of
//! probes.
//!
//! A flow that was an elephant once is traced until it ends, since jobs pause between bursts. An agent notices new
//! paths of its traced flows by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use reweave_common::flow::FlowKey;
use reweave_common::ids::NodeId;
use reweave_common::instruction::Watch;
use reweave_common::moment::Moment;

use crate::estimate::interval_timer::IntervalTimer;
use crate::estimate::probe_paths::TraceSchedule;
use crate::log::effect::Outbox;
use crate::model::world::Measurements;

/// The limit of a host's traced flows: routers answer few packets per second.
const MAX_TRACES: usize = 64;
/// A requested trace lasts this long.
const TRACE_REQUEST_TTL: Duration = Duration::from_secs(10);
/// The limit of requested traces, so that a script cannot displace other traces.
const MAX_TRACE_REQUESTS: usize = 32;

#[derive(Debug, Clone, Default)]
pub(crate) struct TraceTargets {
    elephants: BTreeSet<FlowKey>,
    /// The last request to each agent.
    asked: BTreeMap<NodeId, Watch>,
    /// Requested flows, and until when they are traced.
    wished: BTreeMap<FlowKey, Moment>,
    looks: IntervalTimer,
    of_probes: BTreeMap<NodeId, Vec<FlowKey>>,
    search: TraceSchedule,
}

impl TraceTargets {
    /// A reconnected agent traces nothing.
    pub(crate) fn handle_connected(&mut self, node: NodeId) {
        self.asked.remove(&node);
    }

    /// Traces these flows and their return paths at once, even if they are not elephants. Only the agents concerned
    /// are visited, as thousands would take a while.
    pub(crate) fn trace(
        &mut self,
        known: Measurements<'_>,
        flows: BTreeSet<FlowKey>,
        out: &mut Outbox,
    ) {
        let mut senders = BTreeSet::new();
        for flow in flows {
            if self.wished.len() < MAX_TRACE_REQUESTS || self.wished.contains_key(&flow) {
                self.wished.insert(flow, known.now + TRACE_REQUEST_TTL);
            }
            let both = [flow, flow.reversed()];
            senders.extend(both.map(|it| known.ingest.owner(*it.source.ip())));
        }
        let mut wanted = self.wanted(known);
        for node in senders.into_iter().flatten() {
            if known.ingest.is_connected(node) {
                self.ask(node, wanted.remove(&node).unwrap_or_default(), out);
            }
        }
    }

    /// Updates the requests at intervals, and sends those that changed.
    pub(crate) fn advance(&mut self, known: Measurements<'_>, out: &mut Outbox) {
        if !self.looks.is_due(known.now, known.policy.look_every) {
            return;
        }
        self.wished.retain(|_, until| *until > known.now);
        self.note_elephants(known);
        self.note_probes(known);
        let mut wanted = self.wanted(known);
        for (node, _) in known
            .fabric
            .nodes()
            .filter(|(node, _)| known.ingest.is_connected(*node))
        {
            self.ask(node, wanted.remove(&node).unwrap_or_default(), out);
        }
    }

    /// Sends a changed request. Probes get the rest of the agent's capacity.
    fn ask(&mut self, node: NodeId, mut wanted: Watch, out: &mut Outbox) {
        let probes = self.of_probes.get(&node).into_iter().flatten();
        let room = MAX_TRACES.saturating_sub(wanted.trace.len());
        wanted.trace.extend(probes.take(room));
        let asked = self.asked.entry(node).or_default();
        if *asked != wanted {
            asked.clone_from(&wanted);
            out.watch(node, wanted);
        }
    }

    fn note_elephants(&mut self, known: Measurements<'_>) {
        let world = known.world();
        let least = if world.holds_flows_back() {
            known.least_throttled()
        } else {
            known.least_elephant
        };
        let flows = world.flows().into_iter();
        let elephants = flows.filter(|state| state.rate >= least);
        self.elephants.extend(elephants.map(|state| state.flow));
        self.elephants
            .retain(|flow| known.ingest.flow(flow).is_some());
    }

    fn note_probes(&mut self, known: Measurements<'_>) {
        if let Some(found) = self.search.advance(known.now, known.ingest, known.ways) {
            self.of_probes = found;
        }
    }

    fn wanted(&self, known: Measurements<'_>) -> BTreeMap<NodeId, Watch> {
        let mut of_node: BTreeMap<NodeId, BTreeSet<FlowKey>> = BTreeMap::new();
        let wanted = self.elephants.iter().chain(self.wished.keys());
        for flow in wanted.flat_map(|it| [*it, it.reversed()]) {
            if let Some(sender) = known.ingest.owner(*flow.source.ip()) {
                of_node.entry(sender).or_default().insert(flow);
            }
        }
        of_node
            .into_iter()
            .map(|(node, flows)| (node, self.watch(known, node, flows)))
            .collect()
    }

    /// The flows that this agent should trace. If there are too many, requested ones come first, then elephants, then
    /// return paths; in each class, unknown or old paths come first.
    fn watch(&self, known: Measurements<'_>, sender: NodeId, flows: BTreeSet<FlowKey>) -> Watch {
        let mut trace: Vec<_> = flows.into_iter().collect();
        trace.sort_by_key(|flow| {
            let is_wished = [*flow, flow.reversed()]
                .iter()
                .any(|flow| self.wished.contains_key(flow));
            let is_way_back = !self.elephants.contains(flow);
            (
                !is_wished,
                is_way_back,
                has_recent_path(known, sender, flow),
            )
        });
        trace.truncate(MAX_TRACES);
        trace.sort_unstable();
        Watch { trace }
    }
}

fn has_recent_path(known: Measurements<'_>, sender: NodeId, flow: &FlowKey) -> bool {
    let observed = known.ingest.observations().node(sender);
    let path = observed.and_then(|observed| observed.paths.get(flow));
    path.is_some_and(|path| path.is_fresh(known.now, known.policy.trace_every))
}
