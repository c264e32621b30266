//! From samples to observations: who is connected, which reports are accepted, and which readings are too old.
//!
//! An agent reports for its own node only. A flow belongs to the owner of its source address; reports of others about
//! it are discarded.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use reweave_common::fabric::Fabric;
use reweave_common::flow::FlowKey;
use reweave_common::forwarding_state::ForwardingState;
use reweave_common::health::CounterSource;
use reweave_common::ids::{NodeId, OpticalId};
use reweave_common::moment::Moment;
use reweave_common::observations::{NodeObservations, Observations, RecentReadings};
use reweave_common::sample::{HostReading, Interface, Reading, Sample};
use reweave_common::units::Rate;

use crate::ingest::address_owners::{Addresses, HandedOver};
use crate::ingest::round_robin::{Batch, RoundRobin};
use crate::log::policy::Policy;

#[derive(Debug, Clone, Default)]
pub struct Ingest {
    observations: Observations,
    sessions: BTreeMap<NodeId, Session>,
    addresses: Addresses,
    /// Optical switches whose drivers are connected.
    driven: BTreeSet<OpticalId>,
    in_doubt: Option<Doubt>,
    /// The order in which probe results are dropped.
    turns: RoundRobin,
}

/// Flows whose path is being changed: a path that is traced meanwhile may be neither the old nor the new one.
#[derive(Debug, Clone)]
struct Doubt {
    flows: BTreeSet<FlowKey>,
    until: Moment,
}

#[derive(Debug, Clone, Copy, Default)]
struct Session {
    connected: bool,
    first_heard: Option<Moment>,
    /// The number of rejected readings about other nodes.
    foreign: u64,
}

impl Ingest {
    /// No interface of a node has more.
    const MAX_ADDRESSES: usize = 64;
    /// Agents trace at most half as far.
    const MAX_ROUTERS: usize = 32;
    /// No interface has a longer name.
    const MAX_NAME_BYTES: usize = 64;

    pub fn of(fabric: &Fabric) -> Self {
        Self {
            addresses: Addresses::of(fabric),
            ..Self::default()
        }
    }

    pub fn observations(&self) -> &Observations {
        &self.observations
    }

    /// Whether the node's agent is connected.
    pub(crate) fn is_connected(&self, node: NodeId) -> bool {
        self.sessions
            .get(&node)
            .is_some_and(|session| session.connected)
    }

    /// Whether the agent has reported in this session.
    pub(crate) fn has_reported(&self, node: NodeId) -> bool {
        let observed = self.observations.node(node);
        self.is_connected(node) && observed.is_some_and(|it| it.heard.is_some())
    }

    /// Whether the agent was ever connected.
    pub(crate) fn is_known(&self, node: NodeId) -> bool {
        self.sessions.contains_key(&node)
    }

    pub(crate) fn is_fresh(&self, node: NodeId, now: Moment, policy: &Policy) -> bool {
        let heard = self.observations.node(node).and_then(|node| node.heard);
        self.is_connected(node) && heard.is_some_and(|at| now.since(at) <= policy.most_age())
    }

    pub(crate) fn discarded(&self, node: NodeId) -> u64 {
        let foreign = self
            .sessions
            .get(&node)
            .map_or(0, |session| session.foreign);
        foreign
            + self
                .observations
                .node(node)
                .map_or(0, |node| node.discarded)
    }

    /// Handles a new session. The agent reports everything again, so earlier readings are dropped.
    pub fn handle_connected(&mut self, node: NodeId) {
        self.observations.forget_node(node);
        self.addresses.release_all(node);
        self.sessions.insert(
            node,
            Session {
                connected: true,
                ..Session::default()
            },
        );
    }

    pub fn handle_disconnected(&mut self, node: NodeId) {
        if let Some(session) = self.sessions.get_mut(&node) {
            session.connected = false;
        }
        self.addresses.settle(node);
    }

    /// Whether the sample reports a port down that was up.
    pub(crate) fn falls(&self, node: NodeId, sample: &Sample) -> bool {
        let known = self.observations.node(node);
        let was_up = |name: &str| {
            known.is_some_and(|it| it.counters.get(name).is_some_and(|it| it.value.up))
        };
        let down = sample.readings.iter().filter_map(|reading| match reading {
            Reading::Counters(counters) if !counters.up => Some(&*counters.interface),
            _ => None,
        });
        self.is_connected(node) && down.into_iter().any(was_up)
    }

    pub fn handle_sample(&mut self, node: NodeId, now: Moment, sample: Sample) {
        if let Some(sample) = self.admit(node, now, sample) {
            self.record(node, now, sample);
        }
    }

    /// The readings that the node may report: of its own addresses and flows, and within size limits. `None` without a
    /// session.
    pub(crate) fn admit(&mut self, node: NodeId, now: Moment, sample: Sample) -> Option<Sample> {
        if !self.is_connected(node) {
            return None;
        }
        let (interfaces, others): (Vec<_>, Vec<_>) = sample
            .readings
            .into_iter()
            .partition(|r| matches!(r, Reading::Interface(_)));
        let spoken = interfaces.len() + others.len();
        let interfaces: Vec<_> = interfaces.into_iter().filter(is_sized).collect();
        // An address may move from one interface to another.
        self.release_changed(node, &interfaces);
        let interfaces = interfaces.into_iter();
        let interfaces = interfaces.map(|reading| self.with_own_addresses(node, reading));
        let mut readings: Vec<_> = interfaces.collect();
        let mut own = None;
        readings.extend(
            others
                .into_iter()
                .filter(|reading| is_sized(reading) && self.may_say(node, reading, &mut own)),
        );
        self.note_session(node, now, spoken - readings.len());
        Some(Sample {
            taken: sample.taken,
            readings,
        })
    }

    /// Records accepted readings.
    pub(crate) fn record(&mut self, node: NodeId, now: Moment, mut sample: Sample) {
        sample
            .readings
            .retain(|reading| !self.is_in_doubt(now, reading));
        self.observations.record(node, now, sample);
    }

    /// Drops outdated readings.
    pub(crate) fn handle_time(&mut self, now: Moment, policy: &Policy) {
        self.hand_over(now, policy.most_age());
        self.observations.forget_older_than(now, policy.most_age());
        let Batch { nodes, .. } = probed(&mut self.turns, &self.observations);
        self.observations.forget_probes(now, nodes);
    }

    /// Handles a switch's change: its earlier readback is outdated, and so are the paths of these flows and traces
    /// before `until`.
    pub(crate) fn handle_rerouted(
        &mut self,
        switch: NodeId,
        flows: BTreeSet<FlowKey>,
        until: Moment,
    ) {
        self.observations.forget_holding(switch);
        flows
            .iter()
            .for_each(|flow| self.observations.forget_path(flow));
        self.in_doubt = Some(Doubt { flows, until });
    }

    pub(crate) fn handle_driver(&mut self, optical: OpticalId, is_there: bool) {
        if is_there {
            self.driven.insert(optical);
        } else {
            self.driven.remove(&optical);
        }
    }

    pub(crate) fn is_driven(&self, optical: OpticalId) -> bool {
        self.driven.contains(&optical)
    }

    pub(crate) fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    pub(crate) fn owners(&self) -> &BTreeMap<Ipv4Addr, NodeId> {
        self.addresses.owners()
    }

    pub(crate) fn owner(&self, address: Ipv4Addr) -> Option<NodeId> {
        self.addresses.owner(address)
    }

    pub(crate) fn flow(&self, flow: &FlowKey) -> Option<&RecentReadings> {
        self.sender(flow)?.flows.get(flow)
    }

    /// Whether its sender has had time to report everything, and did not report this flow.
    pub(crate) fn has_ended(&self, flow: &FlowKey, now: Moment, policy: &Policy) -> bool {
        let Some(sender) = self.owner(*flow.source.ip()) else {
            return false;
        };
        let listed_all = self
            .sessions
            .get(&sender)
            .and_then(|session| session.first_heard);
        let listed_all = listed_all.is_some_and(|first| now.since(first) >= policy.most_age());
        listed_all && self.is_fresh(sender, now, policy) && self.flow(flow).is_none()
    }

    fn sender(&self, flow: &FlowKey) -> Option<&NodeObservations> {
        self.observations.node(self.owner(*flow.source.ip())?)
    }

    fn note_session(&mut self, node: NodeId, now: Moment, foreign: usize) {
        if let Some(session) = self.sessions.get_mut(&node) {
            session.first_heard.get_or_insert(now);
            session.foreign += foreign as u64;
        }
    }

    /// Whether the reading is about the node's own things and within size limits.
    pub fn believes(&self, node: NodeId, reading: &Reading) -> bool {
        is_sized(reading) && self.may_say(node, reading, &mut None)
    }

    /// Whether the node may report this. `own` is an address known to be the node's: nearly all readings are about
    /// flows from one address.
    fn may_say(&self, node: NodeId, reading: &Reading, own: &mut Option<Ipv4Addr>) -> bool {
        let about = match reading {
            Reading::Flow(reading) => &reading.flow,
            Reading::FlowEnded(flow) => flow,
            Reading::Path(path) => &path.flow,
            Reading::Probes(reading) => &reading.flow,
            Reading::Bandwidth(reading) => &reading.flow,
            _ => return true,
        };
        let source = *about.source.ip();
        if *own == Some(source) {
            return true;
        }
        let is_own = self.is_of(node, about);
        *own = is_own.then_some(source);
        is_own
    }

    /// Whether this node sends the flow.
    pub fn is_of(&self, node: NodeId, flow: &FlowKey) -> bool {
        self.owner(*flow.source.ip()) == Some(node)
    }

    fn is_in_doubt(&self, now: Moment, reading: &Reading) -> bool {
        let (Reading::Path(path), Some(doubt)) = (reading, &self.in_doubt) else {
            return false;
        };
        now < doubt.until && doubt.flows.contains(&path.flow)
    }

    fn with_own_addresses(&mut self, node: NodeId, reading: Reading) -> Reading {
        let Reading::Interface(mut interface) = reading else {
            return reading;
        };
        interface.addresses.truncate(Self::MAX_ADDRESSES);
        interface.gateways.truncate(Self::MAX_ADDRESSES);
        if self.last_said(node, &interface.name) != Some(&interface) {
            let name = interface.name.clone();
            interface
                .addresses
                .retain(|&address| self.claim(node, &name, address));
        }
        Reading::Interface(interface)
    }

    fn last_said(&self, node: NodeId, interface: &str) -> Option<&Interface> {
        Some(
            &self
                .observations
                .node(node)?
                .interfaces
                .get(interface)?
                .value,
        )
    }

    fn release_changed(&mut self, node: NodeId, readings: &[Reading]) {
        let interfaces = readings.iter().filter_map(|reading| match reading {
            Reading::Interface(interface) => Some(interface),
            _ => None,
        });
        for interface in interfaces {
            self.addresses.withdraw(node, interface);
            if self.last_said(node, &interface.name) != Some(interface) {
                self.release(node, &interface.name);
            }
        }
    }

    fn release(&mut self, node: NodeId, interface: &str) {
        let before = self
            .last_said(node, interface)
            .map(|interface| interface.addresses.clone());
        for address in before.unwrap_or_default() {
            self.addresses.release(address);
        }
    }

    fn claim(&mut self, node: NodeId, interface: &str, address: Ipv4Addr) -> bool {
        let sessions = &self.sessions;
        let is_here = |node| sessions.get(&node).is_some_and(|it| it.connected);
        self.addresses.claim(node, interface, address, is_here)
    }

    /// Accepts a waiting claim once the owner is away for good: its agent does not repeat the claim.
    fn hand_over(&mut self, now: Moment, after: Duration) {
        let sessions = &self.sessions;
        let is_here = |node| sessions.get(&node).is_some_and(|it| it.connected);
        let handed = self.addresses.hand_over(now, after, is_here);
        for HandedOver {
            address,
            to,
            interface,
        } in handed
        {
            self.observations.give_address(to, &interface, address);
        }
    }
}

/// The hosts whose probes are next.
pub(crate) fn probed(turns: &mut RoundRobin, observations: &Observations) -> Batch {
    let nodes = observations.nodes_in(turns.next());
    turns.take(nodes.map(|(node, observed)| (node, observed.probes.len())))
}

/// Whether the reading is within size limits.
fn is_sized(reading: &Reading) -> bool {
    let is_way = |routers: &[_]| routers.len() <= Ingest::MAX_ROUTERS;
    match reading {
        Reading::Interface(interface) => is_short(&interface.name),
        Reading::Counters(counters) => is_short(&counters.interface),
        Reading::Path(path) => is_way(&path.routers),
        Reading::Bandwidth(reading) => reading.routers.as_deref().is_none_or(is_way),
        Reading::Holds { holding, .. } => interfaces(holding).all(is_short),
        Reading::Host(reading) => has_short_names(reading),
        Reading::Flow(_) | Reading::FlowEnded(_) | Reading::Probes(_) => true,
    }
}

fn is_short(name: &str) -> bool {
    name.len() <= Ingest::MAX_NAME_BYTES
}

/// Whether names of interfaces and devices are as short as the kernel's.
fn has_short_names(reading: &HostReading) -> bool {
    let is_short_or_none = |name: &Option<String>| name.as_deref().is_none_or(is_short);
    match reading {
        HostReading::Health(health) => match &health.place {
            CounterSource::Interface(name) | CounterSource::RdmaPort { device: name, .. } => {
                is_short(name)
            }
            CounterSource::Host => true,
        },
        HostReading::Nic(nic) => {
            is_short(&nic.interface) && [&nic.driver, &nic.rdma].into_iter().all(is_short_or_none)
        }
        HostReading::Hardware(it) => is_short(&it.interface),
        HostReading::NicPlace(place) => is_short(&place.interface),
        HostReading::Neighbour(neighbour) => is_short(&neighbour.interface),
        HostReading::Spare(spare) => is_short(&spare.interface),
        HostReading::Vanished { interface, .. } => is_short(interface),
        HostReading::RdmaPort(port) => is_short(&port.device),
        HostReading::Traffic(traffic) => traffic.rdma.iter().all(|port| is_short(&port.device)),
        HostReading::Machine(_)
        | HostReading::Rhythm(_)
        | HostReading::Rdma(_)
        | HostReading::Lack(_)
        | HostReading::Strays(_)
        | HostReading::Rank(_) => true,
    }
}

fn interfaces(holding: &ForwardingState) -> impl Iterator<Item = &str> {
    let hops = holding.routes.iter().flat_map(|route| &route.hops);
    let pins = holding.rules.iter().map(|rule| &rule.interface[..]);
    pins.chain(hops.map(|hop| &hop.interface[..]))
}

/// The newest rates of a flow while it sent, from readings at or after `from`; at most as many as a rate needs. None
/// if the flow has been silent for too long.
pub(crate) fn rates(
    recent: &RecentReadings,
    from: Moment,
    now: Moment,
    policy: &Policy,
) -> Vec<Rate> {
    if !recent.newest().is_fresh(now, policy.most_age()) {
        return Vec::new();
    }
    let readings = recent.backwards().filter(|reading| reading.at >= from);
    readings
        .filter_map(|reading| reading.value.rate)
        .take(policy.readings())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddrV4;

    use reweave_common::flow::Protocol;
    use reweave_common::sample::FlowReading;
    use reweave_common::units::Bytes;

    use super::*;

    fn report_wires(ingest: &mut Ingest, node: NodeId, interfaces: &[(&str, &[u8])]) {
        let interface = |(name, last): &(&str, &[u8])| {
            Reading::Interface(Interface {
                name: (*name).to_owned(),
                addresses: last.iter().map(|last| address(*last)).collect(),
                gateways: vec![],
            })
        };
        let readings = interfaces.iter().map(interface).collect();
        let taken = Moment::default();
        ingest.handle_sample(node, taken, Sample { taken, readings });
    }

    fn address(last: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, 0, last)
    }

    #[test]
    fn address_may_move_between_nodes() {
        let mut ingest = Ingest::default();
        let [one, other] = [0, 1].map(NodeId::from_index);
        ingest.handle_connected(one);
        ingest.handle_connected(other);
        report_wires(&mut ingest, one, &[("eth0", &[1]), ("eth1", &[2])]);
        report_wires(&mut ingest, one, &[("eth1", &[1, 2]), ("eth0", &[])]);
        assert_eq!(ingest.owner(address(1)), Some(one));
        report_wires(&mut ingest, one, &[("eth0", &[1]), ("eth1", &[2])]);
        assert_eq!(ingest.owner(address(1)), Some(one));
        report_wires(&mut ingest, other, &[("eth0", &[1])]);
        assert_eq!(ingest.owner(address(1)), Some(one), "it has it still");
        report_wires(&mut ingest, one, &[("eth0", &[])]);
        report_wires(&mut ingest, other, &[("eth0", &[1])]);
        assert_eq!(ingest.owner(address(1)), Some(other));
    }

    #[test]
    fn reports_of_foreign_flows_are_discarded() {
        let mut ingest = Ingest::default();
        let [one, other] = [0, 1].map(NodeId::from_index);
        for (node, last) in [(one, 1), (other, 2)] {
            ingest.handle_connected(node);
            report_wires(&mut ingest, node, &[("eth0", &[last])]);
        }
        let flow = |last| FlowKey {
            protocol: Protocol::Tcp,
            source: SocketAddrV4::new(address(last), 1),
            destination: SocketAddrV4::new(address(3), 1),
        };
        let reading = |last| {
            Reading::Flow(FlowReading {
                flow: flow(last),
                bytes: Bytes::new(1),
                rate: None,
                rtt: None,
                retransmits: None,
            })
        };
        let taken = Moment::default();
        let readings = [1, 1, 2, 1, 2].map(reading).into();
        let sample = ingest.admit(other, taken, Sample { taken, readings });
        let own: Vec<_> = sample.iter().flat_map(|it| &it.readings).collect();
        assert_eq!(own, [&reading(2), &reading(2)]);
        ingest.record(other, taken, sample.unwrap());
        let observed = ingest.observations().node(other).unwrap();
        assert_eq!(observed.flows.keys().collect::<Vec<_>>(), [&flow(2)]);
        assert_eq!(ingest.discarded(other), 3);
    }
}
