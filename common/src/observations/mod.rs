//! The latest observations of the cluster with their times: the value that goes from `ingest` to `model`.

mod host;

use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use std::ops::Range;
use std::time::Duration;

use crate::bandwidth::BandwidthReading;
use crate::flow::FlowKey;
use crate::forwarding_state::ForwardingState;
use crate::ids::NodeId;
use crate::moment::Moment;
use crate::plan::Generation;
use crate::probing::{ProbeReading, ProbeWindow};
use crate::sample::{Counters, FlowReading, HostReading, Interface, Reading, Sample, TracedPath};
use crate::units::{Bytes, Rate};

pub use host::{HostObservations, RdmaWay};

/// A reading and its time of arrival by the coordinator's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedReading<T> {
    pub value: T,
    pub at: Moment,
}

impl<T> TimedReading<T> {
    pub fn age(&self, now: Moment) -> Duration {
        now.since(self.at)
    }

    pub fn is_fresh(&self, now: Moment, most_age: Duration) -> bool {
        self.age(now) <= most_age
    }
}

/// The latest report of each node. Memory is bounded: reports beyond a node's limit are ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observations {
    nodes: BTreeMap<NodeId, NodeObservations>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeObservations {
    /// Time of the last sample.
    pub heard: Option<Moment>,
    pub interfaces: BTreeMap<String, TimedReading<Interface>>,
    pub counters: BTreeMap<String, TimedReading<Counters>>,
    pub flows: BTreeMap<FlowKey, RecentReadings>,
    pub paths: BTreeMap<FlowKey, TimedReading<TracedPath>>,
    /// By the flow of the probes. Windows are boxed: the keys are iterated far more often, and tree nodes have twice
    /// the needed slots.
    pub probes: BTreeMap<FlowKey, Box<ProbeWindow>>,
    /// Time of its last report of probes that its kernel did not send, if a window may still contain them.
    pub unsent: Option<Moment>,
    /// By the flow of the trains.
    pub bandwidths: BTreeMap<FlowKey, TimedReading<BandwidthReading>>,
    /// State read back from the kernel, with its generation.
    pub holds: Option<TimedReading<(Generation, ForwardingState)>>,
    pub host: HostObservations,
    /// Number of readings beyond the limits.
    pub discarded: u64,
}

/// Recent readings of one flow, oldest first, at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecentReadings(VecDeque<TimedReading<FlowReading>>);

impl RecentReadings {
    pub const MAX_RECENT: usize = 16;

    fn new(first: TimedReading<FlowReading>) -> Self {
        Self(VecDeque::from([first]))
    }

    fn push(&mut self, next: TimedReading<FlowReading>) {
        if self.0.len() == Self::MAX_RECENT {
            self.0.pop_front();
        }
        self.0.push_back(next);
    }

    pub fn newest(&self) -> &TimedReading<FlowReading> {
        self.0.back().expect("there is at least one")
    }

    /// Returns the mean rate from the first to the last reading, pauses included.
    pub fn carried(&self) -> Option<Rate> {
        let (first, last) = (self.0.front()?, self.newest());
        let [first_bytes, last_bytes] = [first, last].map(|it| it.value.bytes.count());
        let bytes = last_bytes.checked_sub(first_bytes)?;
        let elapsed = Some(last.at.since(first.at)).filter(|it| !it.is_zero())?;
        Some(Rate::mean(Bytes::new(bytes), elapsed))
    }

    /// Iterates from the newest to the oldest.
    pub fn backwards(&self) -> impl Iterator<Item = &TimedReading<FlowReading>> {
        self.0.iter().rev()
    }
}

impl Observations {
    pub fn record(&mut self, node: NodeId, now: Moment, sample: Sample) {
        let node = self.nodes.entry(node).or_default();
        node.heard = Some(now);
        for reading in sample.readings {
            node.record(now, reading);
        }
    }

    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &NodeObservations)> {
        self.nodes.iter().map(|(&id, node)| (id, node))
    }

    pub fn nodes_in(
        &self,
        range: Range<NodeId>,
    ) -> impl Iterator<Item = (NodeId, &NodeObservations)> {
        self.nodes.range(range).map(|(&id, node)| (id, node))
    }

    pub fn node(&self, node: NodeId) -> Option<&NodeObservations> {
        self.nodes.get(&node)
    }

    /// Removes all observations of a node; the node will report again.
    pub fn forget_node(&mut self, node: NodeId) {
        self.nodes.remove(&node);
    }

    /// Assigns an address to this interface, even if another node reported it before.
    pub fn give_address(&mut self, node: NodeId, interface: &str, address: Ipv4Addr) {
        let node = self.nodes.get_mut(&node);
        let interface = node.and_then(|node| node.interfaces.get_mut(interface));
        if let Some(interface) = interface {
            interface.value.addresses.push(address);
        }
    }

    /// Removes the state that a node read back, because it has acted since.
    pub fn forget_holding(&mut self, node: NodeId) {
        if let Some(node) = self.nodes.get_mut(&node) {
            node.holds = None;
        }
    }

    /// Removes the path of a flow from all agents, because it may have changed.
    pub fn forget_path(&mut self, flow: &FlowKey) {
        for node in self.nodes.values_mut() {
            node.paths.remove(flow);
        }
    }

    /// Removes reports older than `most`. A path stays as long as its flow is reported; the path of return traffic
    /// stays as long as it is traced. Probes, by far the most numerous, are removed by [`Observations::forget_probes`].
    pub fn forget_older_than(&mut self, now: Moment, most: Duration) {
        for node in self.nodes.values_mut() {
            node.forget_older_than(now, most);
        }
    }

    /// Removes old probe results of these nodes.
    pub fn forget_probes(&mut self, now: Moment, nodes: Range<NodeId>) {
        for (_, node) in self.nodes.range_mut(nodes) {
            node.probes.retain(|_, window| window.handle_time(now));
            let is_known = |at: &Moment| now.since(*at) <= 4 * ProbeWindow::HALF_WINDOW;
            node.unsent = node.unsent.filter(is_known);
        }
    }
}

impl NodeObservations {
    /// Maximum number of interfaces: the largest switches have 512 ports, and further interfaces.
    const MAX_INTERFACES: usize = 2048;
    const MAX_FLOWS: usize = 4096;
    const MAX_PROBED_FLOWS: usize = 4096;
    const MAX_RULES: usize = 4096;
    /// Lifetime of bandwidth results: trains are at least a minute apart.
    const BANDWIDTH_TTL: Duration = Duration::from_secs(900);

    fn record(&mut self, at: Moment, reading: Reading) {
        let kept = match reading {
            Reading::Interface(value) => {
                let name = value.name.clone();
                insert(
                    &mut self.interfaces,
                    Self::MAX_INTERFACES,
                    name,
                    TimedReading { value, at },
                )
            }
            Reading::Counters(value) => {
                let name = value.interface.clone();
                self.host.record_present(&name);
                insert(
                    &mut self.counters,
                    Self::MAX_INTERFACES,
                    name,
                    TimedReading { value, at },
                )
            }
            Reading::Flow(value) => self.record_flow(TimedReading { value, at }),
            Reading::FlowEnded(flow) => {
                self.paths.remove(&flow);
                self.flows.remove(&flow);
                true
            }
            Reading::Probes(reading) => self.record_probes(at, &reading),
            Reading::Bandwidth(value) => insert(
                &mut self.bandwidths,
                Self::MAX_PROBED_FLOWS,
                value.flow,
                TimedReading { value, at },
            ),
            Reading::Path(value) => insert(
                &mut self.paths,
                Self::MAX_FLOWS,
                value.flow,
                TimedReading { value, at },
            ),
            Reading::Holds {
                generation,
                holding,
            } => self.record_holding(at, generation, holding),
            Reading::Host(reading) => {
                if let HostReading::Vanished { interface, .. } = &reading {
                    self.counters.remove(interface);
                }
                self.host.record(at, reading)
            }
        };
        self.discarded += u64::from(!kept);
    }

    fn record_flow(&mut self, reading: TimedReading<FlowReading>) -> bool {
        let flow = reading.value.flow;
        if let Some(recent) = self.flows.get_mut(&flow) {
            recent.push(reading);
            return true;
        }
        insert(
            &mut self.flows,
            Self::MAX_FLOWS,
            flow,
            RecentReadings::new(reading),
        )
    }

    fn record_probes(&mut self, at: Moment, reading: &ProbeReading) -> bool {
        if reading.tally.unsent.count() > 0 {
            self.unsent = Some(at);
        }
        if let Some(window) = self.probes.get_mut(&reading.flow) {
            window.add(at, &reading.tally);
            return true;
        }
        let mut window = Box::new(ProbeWindow::new(at));
        window.add(at, &reading.tally);
        insert(
            &mut self.probes,
            Self::MAX_PROBED_FLOWS,
            reading.flow,
            window,
        )
    }

    fn record_holding(
        &mut self,
        at: Moment,
        generation: Generation,
        holding: ForwardingState,
    ) -> bool {
        let few = holding.len() <= Self::MAX_RULES;
        if few {
            self.holds = Some(TimedReading {
                value: (generation, holding),
                at,
            });
        }
        few
    }

    fn forget_older_than(&mut self, now: Moment, most: Duration) {
        self.flows
            .retain(|_, flow| flow.newest().is_fresh(now, most));
        let flows = &self.flows;
        self.paths
            .retain(|key, path| flows.contains_key(key) || path.is_fresh(now, most));
        self.counters
            .retain(|_, counters| counters.is_fresh(now, most));
        self.bandwidths
            .retain(|_, it| it.is_fresh(now, Self::BANDWIDTH_TTL));
        self.host.forget_older_than(now, most);
    }
}

/// Inserts a value if there is room or the key exists. Returns whether it did.
fn insert<K: Ord, V>(map: &mut BTreeMap<K, V>, most: usize, key: K, value: V) -> bool {
    let fits = map.len() < most || map.contains_key(&key);
    if fits {
        map.insert(key, value);
    }
    fits
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddrV4};

    use super::*;
    use crate::flow::Protocol;
    use crate::probing::ProbeTally;
    use crate::time_span::TimeSpan;
    use crate::units::{Bytes, Rate};

    fn flow(port: u16) -> FlowKey {
        let [source, destination] = [[10, 0, 0, 0], [10, 0, 0, 1]].map(Ipv4Addr::from);
        FlowKey {
            protocol: Protocol::Tcp,
            source: SocketAddrV4::new(source, port),
            destination: SocketAddrV4::new(destination, 1),
        }
    }

    fn reading(port: u16, rate: u64) -> Reading {
        Reading::Flow(FlowReading {
            flow: flow(port),
            bytes: Bytes::new(rate),
            rate: Some(Rate::from_bits_per_s(rate)),
            rtt: Some(TimeSpan::from_millis(1)),
            retransmits: Some(0),
        })
    }

    fn hear(observations: &mut Observations, at_s: u64, readings: Vec<Reading>) {
        let now = Moment::from_micros(at_s * 1_000_000);
        let sample = Sample {
            taken: now,
            readings,
        };
        observations.record(NodeId::from_index(0), now, sample);
    }

    fn node(observations: &Observations) -> &NodeObservations {
        observations.node(NodeId::from_index(0)).unwrap()
    }

    #[test]
    fn only_last_flow_readings_are_kept() {
        let mut observations = Observations::default();
        for second in 0..40 {
            hear(&mut observations, second, vec![reading(1, second)]);
        }
        let recent = &node(&observations).flows[&flow(1)];
        let rates: Vec<_> = recent.backwards().map(|r| r.value.bytes.count()).collect();
        assert_eq!(rates, (24..40).rev().collect::<Vec<_>>());
    }

    #[test]
    fn carried_rate_includes_pauses() {
        let mut observations = Observations::default();
        let carried = |observations: &Observations| node(observations).flows[&flow(1)].carried();
        hear(&mut observations, 1, vec![reading(1, 1000)]);
        assert_eq!(carried(&observations), None);
        hear(&mut observations, 2, vec![reading(1, 3000)]);
        hear(&mut observations, 5, vec![reading(1, 3000)]);
        assert_eq!(carried(&observations), Some(Rate::from_bits_per_s(4000)));
        hear(&mut observations, 6, vec![reading(1, 0)]);
        assert_eq!(carried(&observations), None, "it started over");
    }

    #[test]
    fn unsent_probes_last_throughout_window() {
        let mut observations = Observations::default();
        let probed = |no_way| {
            let mut tally = ProbeTally::default();
            tally.unsent.no_way = no_way;
            Reading::Probes(Box::new(ProbeReading {
                flow: flow(1),
                tally,
            }))
        };
        let everybody = NodeId::from_index(0)..NodeId::from_index(1);
        hear(&mut observations, 1, vec![probed(0)]);
        assert_eq!(node(&observations).unsent, None);
        hear(&mut observations, 2, vec![probed(3)]);
        for second in 3..300 {
            hear(&mut observations, second, vec![probed(0)]);
            let now = Moment::from_micros(second * 1_000_000);
            observations.forget_probes(now, everybody.clone());
            let node = node(&observations);
            let is_in_window = node.probes[&flow(1)].unsent().count() > 0;
            assert!(node.unsent.is_some() || !is_in_window, "{second} s");
        }
        assert_eq!(node(&observations).unsent, None);
    }

    #[test]
    fn excess_flows_of_node_are_discarded() {
        let mut observations = Observations::default();
        let flood = (0..5000).map(|port| reading(port, 1)).collect();
        hear(&mut observations, 0, flood);
        assert_eq!(node(&observations).flows.len(), NodeObservations::MAX_FLOWS);
        assert_eq!(node(&observations).discarded, 5000 - 4096);
        hear(&mut observations, 1, vec![reading(0, 7)]);
        assert_eq!(
            node(&observations).flows[&flow(0)].newest().value.bytes,
            Bytes::new(7)
        );
    }

    #[test]
    fn ended_flow_drops_its_path() {
        let mut observations = Observations::default();
        let path = |port| {
            Reading::Path(TracedPath {
                flow: flow(port),
                routers: vec![],
                confirmed: false,
            })
        };
        let both = vec![reading(1, 1), path(1), reading(2, 1), path(2), path(3)];
        hear(&mut observations, 0, both);
        hear(&mut observations, 2, vec![Reading::FlowEnded(flow(1))]);
        assert_eq!(
            node(&observations).paths.keys().collect::<Vec<_>>(),
            [&flow(2), &flow(3)]
        );
        let forget_at = |observations: &mut Observations, now_us| {
            observations.forget_older_than(Moment::from_micros(now_us), Duration::from_secs(3));
        };
        forget_at(&mut observations, 2_000_000);
        assert_eq!(
            node(&observations).paths.len(),
            2,
            "others' flows are traced, too"
        );
        forget_at(&mut observations, 4_000_000);
        assert!(node(&observations).flows.is_empty() && node(&observations).paths.is_empty());
    }
}
