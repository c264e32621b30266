//! What is known of the cluster, and since when: the value that goes from `ingest` to `model`.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use crate::flow::FlowKey;
use crate::ids::NodeId;
use crate::moment::Moment;
use crate::plan::Generation;
use crate::sample::{Counters, FlowReading, Interface, PinRule, Reading, Sample, TracedPath};

/// A reading and when it arrived, by the coordinator's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aged<T> {
    pub value: T,
    pub at: Moment,
}

impl<T> Aged<T> {
    pub fn age(&self, now: Moment) -> Duration {
        now.since(self.at)
    }
}

/// The newest reading of everything, node by node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observations {
    nodes: BTreeMap<NodeId, NodeObservations>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeObservations {
    pub interfaces: BTreeMap<String, Aged<Interface>>,
    pub counters: BTreeMap<String, Aged<Counters>>,
    pub flows: BTreeMap<FlowKey, Aged<FlowReading>>,
    pub paths: BTreeMap<FlowKey, Aged<TracedPath>>,
    pub round_trips: BTreeMap<Ipv4Addr, Aged<Duration>>,
    pub pinned: Option<Aged<(Generation, Vec<PinRule>)>>,
}

impl Observations {
    pub fn record(&mut self, node: NodeId, now: Moment, sample: Sample) {
        let node = self.nodes.entry(node).or_default();
        for reading in sample.readings {
            node.record(now, reading);
        }
    }

    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &NodeObservations)> {
        self.nodes.iter().map(|(&id, node)| (id, node))
    }

    pub fn node(&self, node: NodeId) -> Option<&NodeObservations> {
        self.nodes.get(&node)
    }

    /// Forgets flows and paths that nobody has spoken of for longer than `most`.
    pub fn forget_older_than(&mut self, now: Moment, most: Duration) {
        for node in self.nodes.values_mut() {
            node.flows.retain(|_, flow| flow.age(now) <= most);
            let flows = &node.flows;
            node.paths.retain(|key, _| flows.contains_key(key));
        }
    }
}

impl NodeObservations {
    fn record(&mut self, at: Moment, reading: Reading) {
        match reading {
            Reading::Interface(value) => {
                self.interfaces.insert(value.name.clone(), Aged { value, at });
            }
            Reading::Counters(value) => {
                self.counters.insert(value.interface.clone(), Aged { value, at });
            }
            Reading::Flow(value) => {
                self.flows.insert(value.flow, Aged { value, at });
            }
            Reading::FlowEnded(flow) => {
                self.flows.remove(&flow);
                self.paths.remove(&flow);
            }
            Reading::RoundTrip { peer, rtt } => {
                self.round_trips.insert(peer, Aged { value: rtt, at });
            }
            Reading::Path(value) => {
                self.paths.insert(value.flow, Aged { value, at });
            }
            Reading::Pinned { generation, rules } => {
                self.pinned = Some(Aged { value: (generation, rules), at });
            }
        }
    }
}
