//! Link latency: the rise of the fastest probe over a link above its usual latency.
//!
//! Queues come and go, and each flow meets other queues; all flows of a link share only the link itself. A flow counts
//! once its usual latency is known, and starts again when its path changes. While a job fills a link, packets queue
//! before it, so flows over that link do not count.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem;
use std::ops::Range;
use std::time::Duration;

use reweave_common::fabric::{Fabric, Role};
use reweave_common::flow::FlowKey;
use reweave_common::ids::NodeId;
use reweave_common::moment::Moment;
use reweave_common::probing::Stamps;
use reweave_common::sample::{Reading, Sample};
use reweave_common::snapshot::Hop;

use crate::estimate::interval_timer::IntervalTimer;
use crate::estimate::probe_paths::ProbePaths;
use crate::ingest::round_robin::RoundRobin;

/// A host and its own links count as one, since round trips cannot tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PathSegment {
    Host(NodeId),
    Hop(Hop),
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Latencies {
    rounds: IntervalTimer,
    turns: RoundRobin,
    loads: IntervalTimer,
    /// Links that were nearly full at the last check.
    busy: BTreeSet<PathSegment>,
    /// A round has ended, and not all hosts were visited since.
    is_ending: bool,
    /// For the visited hosts: by how much all flows through a place are slower, infinite if all of them had to queue,
    /// and their usual latency.
    quickest: BTreeMap<PathSegment, [f64; 2]>,
    /// By prober, because the flows of one prober are few.
    flows: BTreeMap<NodeId, BTreeMap<FlowKey, Flow>>,
    histories: BTreeMap<PathSegment, SegmentLatency>,
}

/// The rise of a place's latency, round by round.
#[derive(Debug, Clone)]
struct SegmentLatency {
    /// The latency of the fastest flow that ever existed: the end of a flow makes no link slower.
    usual_us: f64,
    slower_us: VecDeque<f64>,
}

#[derive(Debug, Clone, Default)]
struct Flow {
    places: BTreeSet<PathSegment>,
    /// The minimum of the first rounds.
    usual_us: f64,
    rounds: u32,
    least_us: Option<f64>,
    /// Whether NICs timestamp its probes. Kernel timestamps are late when their host is busy or was asleep.
    is_exact: bool,
}

impl Latencies {
    pub(crate) const SAMPLE_INTERVAL: Duration = Duration::from_secs(5);
    /// Ten minutes of rounds.
    const MAX_ROUNDS: usize = 120;
    const MIN_ROUNDS: u32 = 3;
    /// Timestamps of a busy kernel are wrong by at most this.
    const MAX_STAMP_ERROR_US: f64 = 1000.0;
    /// The limit of flows per host.
    const MAX_FLOWS: usize = 1 << 10;

    pub(crate) fn handle_sample(&mut self, node: NodeId, sample: &Sample) {
        let flows = self.flows.entry(node).or_default();
        for reading in &sample.readings {
            if let Reading::Probes(probes) = reading
                && let Some(least) = probes.tally.network().least()
                && (flows.len() < Self::MAX_FLOWS || flows.contains_key(&probes.flow))
            {
                let flow = flows.entry(probes.flow).or_default();
                let least_us = least.as_secs_f64() * 1e6;
                flow.is_exact = probes.tally.stamped.mostly() == Some(Stamps::Hardware);
                flow.least_us = Some(flow.least_us.map_or(least_us, |it| it.min(least_us)));
            }
        }
    }

    /// Whether the loads of links are due, once a round.
    pub(crate) fn is_load_due(&mut self, now: Moment) -> bool {
        self.loads.is_due(now, Self::SAMPLE_INTERVAL)
    }

    /// Takes the links that are nearly full now.
    pub(crate) fn handle_loads(&mut self, fabric: &Fabric, nearly_full: &[Hop]) {
        let busy = nearly_full.iter().map(|hop| place(fabric, hop));
        self.busy = busy.collect();
    }

    /// Ends a round once every host was visited.
    pub(crate) fn handle_time(&mut self, now: Moment, fabric: &Fabric, ways: &ProbePaths) {
        self.is_ending |= self.rounds.is_due(now, Self::SAMPLE_INTERVAL);
        if !self.is_ending {
            return;
        }
        let nodes = self.flows.range(self.turns.next());
        let turn = self
            .turns
            .take(nodes.map(|(&node, flows)| (node, flows.len())));
        self.end_round_of(turn.nodes, fabric, ways);
        if turn.is_last {
            self.is_ending = false;
            self.flows.retain(|_, flows| !flows.is_empty());
            self.note_courses();
        }
    }

    fn end_round_of(&mut self, nodes: Range<NodeId>, fabric: &Fabric, ways: &ProbePaths) {
        for (_, flows) in self.flows.range_mut(nodes) {
            flows.retain(|_, flow| flow.least_us.is_some());
            for (key, flow) in flows {
                let places = places(fabric, ways, key);
                let waits = !places.is_disjoint(&self.busy);
                let Some(slower_us) = flow.end_round(places, waits) else {
                    continue;
                };
                for place in &flow.places {
                    let quickest = self.quickest.entry(*place);
                    let [slower, usual] = quickest.or_insert([f64::INFINITY; 2]);
                    (*slower, *usual) = (slower.min(slower_us), usual.min(flow.usual_us));
                }
            }
        }
    }

    fn note_courses(&mut self) {
        let quickest = mem::take(&mut self.quickest);
        self.histories
            .retain(|place, _| quickest.contains_key(place));
        for (place, [slower_us, usual_us]) in quickest {
            let history = self.histories.entry(place).or_default();
            history.usual_us = history.usual_us.min(usual_us);
            // A place without probes in this round keeps its value.
            let before = || history.slower_us.back().copied();
            let seen = Some(slower_us).filter(|it| it.is_finite()).or_else(before);
            history.slower_us.extend(seen);
            let too_many = history.slower_us.len().saturating_sub(Self::MAX_ROUNDS);
            history.slower_us.drain(..too_many);
        }
    }

    /// The latencies round by round, oldest first.
    pub(crate) fn histories(&self) -> impl Iterator<Item = (PathSegment, Vec<f64>)> {
        let histories = self.histories.iter();
        histories.map(|(place, history)| {
            let slower_us = history.slower_us.iter();
            let values = slower_us.map(|slower_us| history.usual_us + slower_us);
            (*place, values.collect())
        })
    }
}

impl Default for SegmentLatency {
    fn default() -> Self {
        Self {
            usual_us: f64::INFINITY,
            slower_us: VecDeque::new(),
        }
    }
}

impl Flow {
    /// The rise above the usual latency, once that is known; infinite if the flow `waits`.
    fn end_round(&mut self, places: BTreeSet<PathSegment>, waits: bool) -> Option<f64> {
        let least_us = self.least_us.take()?;
        if places != self.places || places.is_empty() {
            (self.rounds, self.places) = (0, places);
        }
        if waits {
            return (self.rounds >= Latencies::MIN_ROUNDS).then_some(f64::INFINITY);
        }
        if self.rounds < Latencies::MIN_ROUNDS {
            let known = if self.rounds == 0 {
                least_us
            } else {
                self.usual_us
            };
            (self.usual_us, self.rounds) = (known.min(least_us), self.rounds + 1);
            return None;
        }
        let noise_us = if self.is_exact {
            0.0
        } else {
            Latencies::MAX_STAMP_ERROR_US
        };
        Some((least_us - self.usual_us - noise_us).max(0.0))
    }
}

/// The places on the path of a flow there and back; none if that is unknown.
fn places(fabric: &Fabric, ways: &ProbePaths, flow: &FlowKey) -> BTreeSet<PathSegment> {
    let both = [ways.way(flow), ways.way(&flow.reversed())];
    let [Some(there), Some(back)] = both else {
        return BTreeSet::new();
    };
    let all = there.iter().chain(back);
    all.map(|hop| place(fabric, hop)).collect()
}

fn place(fabric: &Fabric, hop: &Hop) -> PathSegment {
    let mut ends = [hop.from, fabric.link(hop.link).far(hop.from).node].into_iter();
    let host = ends.find(|node| fabric.node(*node).role == Role::Host);
    host.map_or(PathSegment::Hop(*hop), PathSegment::Host)
}
