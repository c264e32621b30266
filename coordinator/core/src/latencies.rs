//! How quickly probes have crossed links: by how much even the quickest of all that cross one is
//! slower than it used to be.
//!
//! Queues come and go, and each flow meets others: what all have in common is the link itself. A flow
//! counts once it is known how quick it is as a rule, and anew when it goes another way.

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

use crate::pace::Pace;
use crate::turns::Turns;
use crate::ways::Ways;

/// A host and its own links are one, as far as round trips tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Where {
    Host(NodeId),
    Hop(Hop),
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Latencies {
    rounds: Pace,
    turns: Turns,
    /// A round has ended, and not everybody had a turn since.
    is_ending: bool,
    /// Of those who had one: by how much all that cross a place are slower, and what they take as a rule.
    quickest: BTreeMap<Where, [f64; 2]>,
    /// By whoever probes: the few flows of one are found sooner than one among those of all.
    flows: BTreeMap<NodeId, BTreeMap<FlowKey, Flow>>,
    courses: BTreeMap<Where, VecDeque<f64>>,
}

#[derive(Debug, Clone, Default)]
struct Flow {
    places: BTreeSet<Where>,
    /// The least of the first rounds.
    usual_us: f64,
    rounds: u32,
    least_us: Option<f64>,
    /// Whether cards stamp its probes. Kernels take longer when their host is busy, or has slept.
    is_exact: bool,
}

impl Latencies {
    pub(crate) const EVERY: Duration = Duration::from_secs(5);
    /// Ten minutes of rounds.
    const MOST_ROUNDS: usize = 120;
    const LEARNING: u32 = 3;
    /// What the stamps of a kernel that is busy are off by, all of them.
    const NOISE_US: f64 = 1000.0;
    /// Of one host.
    const MOST_FLOWS: usize = 1 << 10;

    pub(crate) fn handle_sample(&mut self, node: NodeId, sample: &Sample) {
        let flows = self.flows.entry(node).or_default();
        for reading in &sample.readings {
            if let Reading::Probes(probes) = reading
                && let Some(least) = probes.tally.network().least()
                && (flows.len() < Self::MOST_FLOWS || flows.contains_key(&probes.flow))
            {
                let flow = flows.entry(probes.flow).or_default();
                let least_us = least.as_secs_f64() * 1e6;
                flow.is_exact = probes.tally.stamped.mostly() == Some(Stamps::Hardware);
                flow.least_us = Some(flow.least_us.map_or(least_us, |it| it.min(least_us)));
            }
        }
    }

    /// Once a round: what came of it.
    pub(crate) fn handle_time(&mut self, now: Moment, fabric: &Fabric, ways: &Ways) {
        self.is_ending |= self.rounds.is_due(now, Self::EVERY);
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

    fn end_round_of(&mut self, nodes: Range<NodeId>, fabric: &Fabric, ways: &Ways) {
        for (_, flows) in self.flows.range_mut(nodes) {
            flows.retain(|_, flow| flow.least_us.is_some());
            for (key, flow) in flows {
                let places = places(fabric, ways, key);
                let Some(slower_us) = flow.end_round(places) else {
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
        self.courses.retain(|place, _| quickest.contains_key(place));
        for (place, [slower, usual]) in quickest {
            let course = self.courses.entry(place).or_default();
            course.push_back(usual + slower);
            let too_many = course.len().saturating_sub(Self::MOST_ROUNDS);
            course.drain(..too_many);
        }
    }

    /// Round by round, the oldest first.
    pub(crate) fn courses(&self) -> impl Iterator<Item = (Where, Vec<f64>)> {
        let courses = self.courses.iter();
        courses.map(|(place, course)| (*place, course.iter().copied().collect()))
    }
}

impl Flow {
    /// By how much it was slower than it is as a rule, once that is known.
    fn end_round(&mut self, places: BTreeSet<Where>) -> Option<f64> {
        let least_us = self.least_us.take()?;
        if places != self.places || places.is_empty() {
            (self.rounds, self.places) = (0, places);
        }
        if self.rounds < Latencies::LEARNING {
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
            Latencies::NOISE_US
        };
        Some((least_us - self.usual_us - noise_us).max(0.0))
    }
}

/// What a flow crosses there and back; nothing, where that is not known.
fn places(fabric: &Fabric, ways: &Ways, flow: &FlowKey) -> BTreeSet<Where> {
    let both = [ways.way(flow), ways.way(&flow.reversed())];
    let [Some(there), Some(back)] = both else {
        return BTreeSet::new();
    };
    let place = |hop: &Hop| {
        let ends = [hop.from, fabric.link(hop.link).far(hop.from).node];
        let host = ends
            .into_iter()
            .find(|node| fabric.node(*node).role == Role::Host);
        host.map_or(Where::Hop(*hop), Where::Host)
    };
    there.iter().chain(back).map(place).collect()
}
