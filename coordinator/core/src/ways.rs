//! Which way the probes between hosts go, there and back: each flow of probes is traced from time to
//! time, a few at once, since routers answer few questions a second.

use std::collections::BTreeMap;
use std::time::Duration;

use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::ids::NodeId;
use reweave_common::moment::Moment;
use reweave_common::probing::PROBE_PORT;
use reweave_common::snapshot::Hop;
use reweave_planner::paths::Learned;

use crate::model::{Known, Picture};

/// So many flows of one host are traced at a time.
const AT_ONCE: usize = 16;
/// A way is asked for again after this; without an answer it is believed so much longer.
const LEARN_EVERY: Duration = Duration::from_secs(30);
const TRUST_FOR: Duration = Duration::from_secs(120);
/// More are not kept, however many hosts there are.
const MOST_WAYS: usize = 1 << 18;

#[derive(Debug, Clone, Default)]
pub(crate) struct Ways {
    learned: Learned<FlowKey>,
    traced: BTreeMap<FlowKey, Moment>,
}

impl Ways {
    /// Takes what agents have traced since.
    pub(crate) fn advance(&mut self, picture: &Picture<'_>) {
        let now = picture.known.now;
        for (from, traced) in picture.traced_probes() {
            let is_newer = |at: &Moment| traced.at > *at;
            let known = self.traced.get(&traced.value.flow);
            if known.is_none_or(is_newer) && self.traced.len() < MOST_WAYS {
                self.learn(picture, from, traced.value.flow, traced.at);
            }
        }
        let old = |at: &Moment| now.since(*at) > TRUST_FOR;
        let old = self.traced.iter().filter(|(_, at)| old(at));
        let old: Vec<_> = old.map(|(flow, _)| *flow).collect();
        for flow in old {
            self.traced.remove(&flow);
            self.learned.forget(&flow);
        }
    }

    /// A way that is not the one known before is believed when it is traced again.
    fn learn(&mut self, picture: &Picture<'_>, from: NodeId, flow: FlowKey, at: Moment) {
        let Some(way) = picture.way(from, &flow) else {
            return;
        };
        if self.learned.is_contradicted(&flow) {
            self.learned.forget(&flow);
        }
        self.learned.record(flow, way);
        self.traced.insert(flow, at);
    }

    pub(crate) fn way(&self, flow: &FlowKey) -> Option<&[Hop]> {
        self.learned.way(flow)
    }

    /// What each agent shall trace now: of the probes it sends and answers, those whose way was
    /// traced the longest ago or never.
    pub(crate) fn wanted(&self, known: Known<'_>) -> BTreeMap<NodeId, Vec<FlowKey>> {
        let mut due: BTreeMap<NodeId, Vec<(Option<Moment>, FlowKey)>> = BTreeMap::new();
        for (_, node) in known.ingest.observations().nodes() {
            for flow in node.probes.keys().flat_map(|it| [*it, it.reversed()]) {
                let at = self.traced.get(&flow).copied();
                let is_due = at.is_none_or(|at| known.now.since(at) >= LEARN_EVERY)
                    || self.learned.way(&flow).is_none();
                if let Some(sender) = known.ingest.owner(*flow.source.ip()).filter(|_| is_due) {
                    due.entry(sender).or_default().push((at, flow));
                }
            }
        }
        let few = |mut flows: Vec<(Option<Moment>, FlowKey)>| {
            flows.sort_unstable();
            let flows = flows.into_iter().take(AT_ONCE);
            flows.map(|(_, flow)| flow).collect()
        };
        due.into_iter()
            .map(|(node, flows)| (node, few(flows)))
            .collect()
    }
}

/// Whether an agent sends or answers probes by these fields.
pub(crate) fn is_of_probes(flow: &FlowKey) -> bool {
    let ports = [flow.source.port(), flow.destination.port()];
    flow.protocol == Protocol::Udp && ports.contains(&PROBE_PORT)
}
