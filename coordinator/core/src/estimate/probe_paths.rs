//! The paths of probes between hosts, there and back. Each flow of probes is traced from time to time, a few at once,
//! since routers answer only a few traces a second.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::time::Duration;

use reweave_common::fabric::Fabric;
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::ids::NodeId;
use reweave_common::moment::Moment;
use reweave_common::observations::TimedReading;
use reweave_common::probing::PROBE_PORT;
use reweave_common::sample::TracedPath;
use reweave_common::snapshot::Hop;
use reweave_repair::paths::Learned;

use crate::ingest::round_robin::RoundRobin;
use crate::ingest::telemetry::{Ingest, probed};

const MAX_TRACES_PER_HOST: usize = 16;
/// A path is traced again after this; without a new trace it stays valid for the same time once more.
const TRACE_INTERVAL: Duration = Duration::from_secs(30);
const PATH_TTL: Duration = Duration::from_secs(120);
/// The limit of known paths, and of paths per host: those of its probes there and back.
const MAX_PATHS: usize = 1 << 18;
const MAX_PATHS_PER_HOST: usize = 160;

#[derive(Debug, Clone, Default)]
pub(crate) struct ProbePaths {
    learned: Learned<FlowKey>,
    traced: BTreeMap<FlowKey, Moment>,
    /// The last path of flows that were traced along one path and then along another.
    doubted: BTreeMap<FlowKey, Vec<Hop>>,
}

/// A completely traced path of a probe flow.
pub(crate) struct TracedProbe {
    flow: FlowKey,
    way: Vec<Hop>,
    at: Moment,
}

impl ProbePaths {
    /// The complete paths that agents have traced since.
    pub(crate) fn newly_traced<'t>(
        &self,
        fabric: &Fabric,
        traced: impl Iterator<Item = (NodeId, &'t TimedReading<TracedPath>)>,
        way: impl Fn(NodeId, &FlowKey) -> Option<Vec<Hop>>,
    ) -> Vec<TracedProbe> {
        if self.traced.len() >= max_paths(fabric) {
            return Vec::new();
        }
        let mut new = Vec::new();
        for (from, traced) in traced {
            let (flow, at) = (traced.value.flow, traced.at);
            if self.is_newer(&flow, at)
                && let Some(way) = way(from, &flow)
            {
                new.push(TracedProbe { flow, way, at });
            }
        }
        new
    }

    /// Takes new traces, and drops those that are too old.
    pub(crate) fn handle_traced(&mut self, now: Moment, fabric: &Fabric, traced: Vec<TracedProbe>) {
        let most = max_paths(fabric);
        for TracedProbe { flow, way, at } in traced {
            if self.is_newer(&flow, at) && self.traced.len() < most {
                self.note(flow, way, at);
            }
        }
        let old = |at: &Moment| now.since(*at) > PATH_TTL;
        let old = self.traced.iter().filter(|(_, at)| old(at));
        let old: Vec<_> = old.map(|(flow, _)| *flow).collect();
        for flow in old {
            self.traced.remove(&flow);
            self.doubted.remove(&flow);
            self.learned.forget(&flow);
        }
    }

    fn is_newer(&self, flow: &FlowKey, at: Moment) -> bool {
        let known = self.traced.get(flow);
        known.is_none_or(|known| at > *known)
    }

    /// A path that differs from the known one is accepted once it was traced twice in a row. If each packet takes
    /// another path, none is accepted.
    pub(crate) fn note(&mut self, flow: FlowKey, way: Vec<Hop>, at: Moment) {
        self.traced.insert(flow, at);
        if self.doubted.get(&flow) == Some(&way) {
            self.doubted.remove(&flow);
            self.learned.forget(&flow);
        }
        self.learned.record(flow, way.clone());
        if self.learned.is_contradicted(&flow) {
            self.doubted.insert(flow, way);
        }
    }

    /// A warning that some probes do not count, because their paths are uncertain.
    pub(crate) fn doubts(&self, fabric: &Fabric, ingest: &Ingest) -> Option<String> {
        let flow = self.doubted.keys().next()?;
        let ends = [flow.source, flow.destination].map(|end| {
            let owner = ingest.owner(*end.ip());
            owner.map_or("?", |owner| fabric.name(owner))
        });
        let (count, [from, to]) = (self.doubted.len(), ends);
        Some(format!(
            "{count} probe paths left out, as from {from} to {to}: traces disagree"
        ))
    }

    /// Sets a path as if it had been traced.
    #[cfg(test)]
    pub(crate) fn know(&mut self, flow: FlowKey, way: Vec<Hop>, at: Moment) {
        self.learned.record(flow, way);
        self.traced.insert(flow, at);
    }

    pub(crate) fn way(&self, flow: &FlowKey) -> Option<&[Hop]> {
        self.learned.way(flow)
    }

    /// Whether a trace is due, and when the last one was.
    fn due(&self, flow: &FlowKey, now: Moment) -> Option<Option<Moment>> {
        let at = self.traced.get(flow).copied();
        let is_old = at.is_none_or(|at| now.since(at) >= TRACE_INTERVAL);
        (is_old || self.learned.way(flow).is_none()).then_some(at)
    }
}

fn max_paths(fabric: &Fabric) -> usize {
    let hosts = fabric.endpoints().count();
    MAX_PATHS.max(hosts * MAX_PATHS_PER_HOST)
}

/// What each agent should trace now: of the probes that it sends and answers, those whose trace is the oldest or
/// missing.
#[derive(Debug, Clone, Default)]
pub(crate) struct TraceSchedule {
    turns: RoundRobin,
    /// By sender, with the time of the last trace.
    due: BTreeMap<NodeId, BTreeSet<(Option<Moment>, FlowKey)>>,
}

impl TraceSchedule {
    /// Continues with the next hosts; returns the schedule once all were visited.
    pub(crate) fn advance(
        &mut self,
        now: Moment,
        ingest: &Ingest,
        ways: &ProbePaths,
    ) -> Option<BTreeMap<NodeId, Vec<FlowKey>>> {
        let observations = ingest.observations();
        let turn = probed(&mut self.turns, observations);
        for (_, node) in observations.nodes_in(turn.nodes) {
            for flow in node.probes.keys().flat_map(|it| [*it, it.reversed()]) {
                if let Some(at) = ways.due(&flow, now)
                    && let Some(sender) = ingest.owner(*flow.source.ip())
                {
                    self.note(sender, at, flow);
                }
            }
        }
        turn.is_last.then(|| {
            let due = mem::take(&mut self.due).into_iter();
            due.map(|(node, due)| (node, due.into_iter().map(|(_, flow)| flow).collect()))
                .collect()
        })
    }

    fn note(&mut self, sender: NodeId, at: Option<Moment>, flow: FlowKey) {
        let due = self.due.entry(sender).or_default();
        due.insert((at, flow));
        if due.len() > MAX_TRACES_PER_HOST {
            due.pop_last();
        }
    }
}

/// Whether these fields are those of probes.
pub(crate) fn is_of_probes(flow: &FlowKey) -> bool {
    let ports = [flow.source.port(), flow.destination.port()];
    flow.protocol == Protocol::Udp && ports.contains(&PROBE_PORT)
}
