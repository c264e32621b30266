//! Builds a snapshot from observations and the fabric: addresses become nodes, routers become hops, and old or
//! uncertain data are left out.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use reweave_common::fabric::{Circuits, Fabric, NicUse, Role};
use reweave_common::flow::FlowKey;
use reweave_common::forwarding_state::ForwardingState;
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::moment::Moment;
use reweave_common::observations::{NodeObservations, RecentReadings, TimedReading};
use reweave_common::operator::NotSeen;
use reweave_common::sample::{Counters, TracedPath};
use reweave_common::snapshot::{FlowState, Hop, LinkState, Snapshot};
use reweave_common::units::Rate;
use reweave_repair::paths::drained;

use crate::estimate::counter_trends::CounterTrends;
use crate::estimate::job_names::JobNames;
use crate::estimate::link_latency::Latencies;
use crate::estimate::link_loss::Losses;
use crate::estimate::probe_paths::{ProbePaths, is_of_probes};
use crate::ingest::telemetry::{Ingest, rates};
use crate::log::policy::Policy;
use crate::log::rate_summary::{RateSummary, scaled};
use crate::log::state::InForce;
use crate::model::idle_flows::IdleFlows;

mod path;
mod pinning;
mod wiring;

pub(crate) use path::Passed;
pub(crate) use wiring::other_of_two;
pub use wiring::{End, Reporting, Wiring};

/// The share of a link's rate from which packets may queue for as long as the load lasts.
const MIN_QUEUEING_LOAD: f64 = 0.75;

/// All inputs of a decision, at one moment.
#[derive(Clone, Copy)]
pub(crate) struct Measurements<'a> {
    pub(crate) fabric: &'a Arc<Fabric>,
    pub(crate) ingest: &'a Ingest,
    pub(crate) trends: &'a CounterTrends,
    pub(crate) latencies: &'a Latencies,
    pub(crate) losses: &'a Losses,
    pub(crate) ways: &'a ProbePaths,
    pub(crate) resting: &'a IdleFlows,
    pub(crate) names: &'a JobNames,
    pub(crate) policy: &'a Policy,
    pub(crate) least_elephant: Rate,
    /// The end of this coordinator's latest stall: acks and readings may not have arrived before.
    pub(crate) resumed_at: Moment,
    pub(crate) now: Moment,
}

/// The measured cluster, derived from the inputs once per decision.
pub(crate) struct World<'a> {
    pub(crate) known: Measurements<'a>,
    nodes: wiring::Reporting<'a>,
    pub(crate) wiring: Wiring,
}

impl<'a> Measurements<'a> {
    pub(crate) fn world(self) -> World<'a> {
        let nodes = self.ingest.observations().nodes();
        let nodes = nodes.filter(|(node, _)| self.is_fresh(*node)).collect();
        let wiring = Wiring::new(self.fabric, &nodes);
        World {
            known: self,
            nodes,
            wiring,
        }
    }

    /// Whether the node's agent is connected and has reported lately.
    pub(crate) fn is_fresh(self, node: NodeId) -> bool {
        self.ingest.is_fresh(node, self.now, self.policy)
    }

    /// The same for operators: an agent is not called silent for a time in which this coordinator was stalled.
    pub(crate) fn is_heard(self, node: NodeId) -> bool {
        let observed = self.ingest.observations().node(node);
        let heard = observed.and_then(|it| it.heard);
        let most_age = self.policy.most_age();
        let is_due = |at: Moment| self.now.since(at.max(self.resumed_at)) > most_age;
        self.ingest.is_connected(node) && heard.is_some_and(|at| !is_due(at))
    }

    /// The interfaces over which a node lacks pins and hops of this state, by its last report, if they are down and
    /// the node holds the rest: it installs them once the interfaces are up.
    pub(crate) fn left_out(
        self,
        node: NodeId,
        desired: &ForwardingState,
    ) -> Option<BTreeSet<String>> {
        let observed = self.ingest.observations().node(node)?;
        let (_, held) = &observed.holds.as_ref()?.value;
        let left_out = held.left_out_of(desired)?;
        let is_down = |interface: &String| {
            let counters = observed.counters.get(interface);
            counters.is_some_and(|counters| !counters.value.up)
        };
        left_out.iter().all(is_down).then_some(left_out)
    }

    /// Whether the flow has ended. After a stall of this coordinator, a sender needs time to report everything again.
    pub(crate) fn has_ended(self, flow: &FlowKey) -> bool {
        self.now.since(self.resumed_at) >= self.policy.most_age()
            && self.ingest.has_ended(flow, self.now, self.policy)
    }

    /// A rate of this flow from as many readings as a verdict needs, none before `from`.
    pub(crate) fn spread_since(self, recent: &RecentReadings, from: Moment) -> Option<RateSummary> {
        let rates = rates(recent, from, self.now, self.policy);
        RateSummary::of(&rates).filter(|_| rates.len() >= self.policy.readings())
    }

    /// Whether there are as many readings of this flow as a rate needs.
    pub(crate) fn is_well_measured(self, flow: &FlowKey) -> bool {
        let recent = self.ingest.flow(flow);
        recent.is_some_and(|recent| self.spread_since(recent, Moment::default()).is_some())
    }

    /// The same for readings that are still current.
    pub(crate) fn is_well_measured_lately(self, flow: &FlowKey) -> bool {
        let recent = self.ingest.flow(flow);
        let since = ago(self.now, self.policy.most_age());
        recent.is_some_and(|recent| self.spread_since(recent, since).is_some())
    }

    /// The least rate of a flow that a full link may limit: the more flows share it, the less each has.
    pub(crate) fn least_throttled(self) -> Rate {
        let planner = &self.policy.planner;
        let share = planner.throttled_share() / planner.elephant_share;
        scaled(self.least_elephant, share)
    }

    /// Whether a flow of this rate is worth attention anywhere.
    pub(crate) fn is_elephant(self, rate: Rate) -> bool {
        rate >= self.least_elephant
    }
}

/// The world of one decision, built on first use. In a cluster of thousands that takes milliseconds, and most inputs
/// need none.
pub(crate) struct DecisionWorld<'a> {
    pub(crate) known: Measurements<'a>,
    world: OnceCell<World<'a>>,
}

impl<'a> DecisionWorld<'a> {
    pub(crate) fn new(known: Measurements<'a>) -> Self {
        Self {
            known,
            world: OnceCell::new(),
        }
    }

    pub(crate) fn get(&self) -> &World<'a> {
        self.world.get_or_init(|| self.known.world())
    }
}

/// The rate from which a flow is an elephant on the slowest link of the fabric. NICs for storage and management do
/// not count.
pub(crate) fn least_elephant(fabric: &Fabric, policy: &Policy) -> Rate {
    let links = fabric.links();
    let training = links.filter(|(id, _)| fabric.is_for_training(*id));
    let slowest = training.map(|(_, link)| link.rate).min();
    scaled(
        slowest.unwrap_or(Rate::from_bits_per_s(0)),
        policy.planner.elephant_share,
    )
}

impl World<'_> {
    pub(crate) fn fabric(&self) -> &Fabric {
        self.known.fabric
    }

    pub(crate) fn snapshot(&self, in_force: &InForce) -> Snapshot {
        let circuits = in_force.circuits_of(self.fabric());
        Snapshot {
            generation: in_force.generation,
            fabric: Arc::clone(self.known.fabric),
            links: self.links_by(&circuits),
            lossy: BTreeMap::new(),
            drained: drained(self.fabric(), &in_force.tables),
            flows: self.flows(),
            pins: in_force.pins.clone(),
            unpinnable: self.unpinnable().into_keys().collect(),
            tables: in_force.tables.clone(),
            circuits,
            beating: Vec::new(),
        }
    }

    /// Cables, and links over these circuits.
    pub(crate) fn links_by(&self, circuits: &Circuits) -> BTreeMap<Hop, LinkState> {
        let mut links = self.links();
        links.extend(self.fibres(circuits));
        links
    }

    /// The ends of links over these circuits: the fibres alone identify their interfaces.
    fn fibres(&self, circuits: &Circuits) -> BTreeMap<Hop, LinkState> {
        let fabric = self.fabric();
        let dark = fabric.dark(circuits);
        let links = fabric.links().map(|(link, _)| link);
        let lit = links.filter(|link| fabric.crossing(*link).is_some() && !dark.contains(link));
        let hops = lit.flat_map(|link| {
            let ports = fabric.link(link).ports();
            ports.map(|port| Hop {
                from: port.node,
                link,
            })
        });
        let state = |hop: Hop| {
            let interface = &fabric.fibre_of(hop.from, hop.link)?.interface;
            let counters = self.counted(hop.from, interface)?;
            let state = LinkState {
                up: counters.value.up,
                rate: counters.value.send_rate?,
                age: counters.age(self.known.now),
            };
            Some((hop, state))
        };
        hops.filter_map(state).collect()
    }

    /// Links over these circuits that one end reports as down.
    pub(crate) fn lightless(&self, circuits: &Circuits) -> BTreeSet<LinkId> {
        let fibres = self.fibres(circuits).into_iter();
        let down = fibres.filter(|(_, state)| !state.up);
        down.map(|(hop, _)| hop.link).collect()
    }

    pub(crate) fn links(&self) -> BTreeMap<Hop, LinkState> {
        let states = self.hops();
        let states = states.filter_map(|hop| Some((hop, self.link_state(hop)?)));
        states.collect()
    }

    fn hops(&self) -> impl Iterator<Item = Hop> {
        let links = self.known.fabric.links();
        links.flat_map(|(link, between)| {
            between.ports().map(|port| Hop {
                from: port.node,
                link,
            })
        })
    }

    /// Problems that may exist without evidence, and that cannot be repaired.
    pub(crate) fn not_seen(&self) -> NotSeen {
        let nodes = self.known.fabric.nodes();
        let silent = nodes.filter(|(node, _)| !self.known.is_heard(*node));
        let flows = self.flows().into_iter();
        let unknown =
            flows.filter(|state| state.path.is_none() && self.known.is_elephant(state.rate));
        NotSeen {
            nodes: silent.map(|(_, node)| node.name.clone()).collect(),
            ways_of: unknown.map(|state| state.flow).collect(),
            doubts: self.pinning_doubts(),
        }
    }

    /// Whether a switch sends over a full link.
    pub(crate) fn holds_flows_back(&self) -> bool {
        !self.full_hops().is_empty()
    }

    /// Full links, from the switches that send over them.
    pub(crate) fn full_hops(&self) -> BTreeSet<Hop> {
        let links = self.links().into_iter();
        let full = links.filter(|(hop, state)| self.is_full(*hop, state));
        full.map(|(hop, _)| hop).collect()
    }

    fn is_full(&self, hop: Hop, state: &LinkState) -> bool {
        let capacity = self.known.fabric.link(hop.link).rate;
        let is_switch = self.known.fabric.node(hop.from).role == Role::Switch;
        let is_for_training = self.known.fabric.is_for_training(hop.link);
        is_switch
            && is_for_training
            && state.rate >= scaled(capacity, self.known.policy.planner.full_at)
    }

    /// All hops with so much load that packets may queue for a while.
    pub(crate) fn nearly_full(&self) -> Vec<Hop> {
        let hops = self.hops();
        hops.filter(|hop| self.is_nearly_full(*hop)).collect()
    }

    fn is_nearly_full(&self, hop: Hop) -> bool {
        let capacity = self.known.fabric.link(hop.link).rate;
        let load = self.load(hop);
        load.is_some_and(|load| load >= scaled(capacity, MIN_QUEUEING_LOAD))
    }

    /// Links that one end reports as down.
    pub(crate) fn down(&self) -> BTreeSet<LinkId> {
        let links = self.links().into_iter();
        let down = links.filter(|(_, state)| !state.up);
        down.map(|(hop, _)| hop.link).collect()
    }

    /// Returns the bytes that this end has sent, or else those that the other end has received.
    fn link_state(&self, hop: Hop) -> Option<LinkState> {
        let far = Hop {
            from: self.known.fabric.link(hop.link).far(hop.from).node,
            ..hop
        };
        let sent = self.counters(hop).map(|near| (near, near.value.send_rate));
        let received = self.counters(far).map(|far| (far, far.value.receive_rate));
        let measured = [sent, received].into_iter().flatten();
        let (counters, rate) = measured.filter_map(|(c, rate)| Some((c, rate?))).next()?;
        Some(LinkState {
            up: counters.value.up,
            rate,
            age: counters.age(self.known.now),
        })
    }

    /// The measured load of a hop.
    pub(crate) fn load(&self, hop: Hop) -> Option<Rate> {
        Some(self.link_state(hop)?.rate)
    }

    fn counters(&self, end: Hop) -> Option<&TimedReading<Counters>> {
        self.counted(end.from, &self.wiring.end(end)?.interface)
    }

    /// The recent counters of this interface.
    pub(crate) fn counted(&self, node: NodeId, interface: &str) -> Option<&TimedReading<Counters>> {
        let counters = self.nodes.get(&node)?.counters.get(interface)?;
        counters
            .is_fresh(self.known.now, self.known.policy.most_age())
            .then_some(counters)
    }

    /// The flows that sent lately between NICs for training, in the order of their keys.
    pub(crate) fn flows(&self) -> Vec<FlowState> {
        let of_node = |(&node, observed): (&NodeId, &&NodeObservations)| {
            let state = |(flow, recent)| self.flow_state(node, observed, flow, recent);
            observed.flows.iter().filter_map(state).collect::<Vec<_>>()
        };
        let mut flows: Vec<_> = self.nodes.iter().flat_map(of_node).collect();
        flows.sort_by_key(|state| state.flow);
        flows
    }

    fn flow_state(
        &self,
        from: NodeId,
        observed: &NodeObservations,
        flow: &FlowKey,
        recent: &RecentReadings,
    ) -> Option<FlowState> {
        let Measurements { now, policy, .. } = self.known;
        if !self.is_of_training(flow) {
            return None;
        }
        let spread = RateSummary::of(&rates(recent, ago(now, policy.most_age()), now, policy))?;
        Some(FlowState {
            flow: *flow,
            from,
            to: self.wiring.node(*flow.destination.ip())?,
            nic: self.wiring.nics().get(flow.destination.ip()).copied(),
            rate: spread.mean,
            rate_range: [spread.least, spread.most],
            path: self.traced(from, observed, flow),
            age: recent.newest().age(now),
        })
    }

    /// Whether neither end of the flow is a NIC for storage or management.
    pub(crate) fn is_of_training(&self, flow: &FlowKey) -> bool {
        let mut ends = [flow.source, flow.destination].into_iter();
        ends.all(|end| self.wiring.is_for_training(*end.ip()))
    }

    /// The number of readings for a flow's rate.
    pub(crate) fn readings(&self, flow: &FlowKey) -> Option<usize> {
        let Measurements { now, policy, .. } = self.known;
        let recent = self.known.ingest.flow(flow)?;
        Some(rates(recent, ago(now, policy.most_age()), now, policy).len())
    }

    /// The path of packets from the receiver back.
    pub(crate) fn path_back(&self, state: &FlowState) -> Option<Vec<Hop>> {
        let observed = self.nodes.get(&state.to)?;
        self.traced(state.to, observed, &state.flow.reversed())
    }

    /// The traced paths of probes, with their senders.
    pub(crate) fn traced_probes(
        &self,
    ) -> impl Iterator<Item = (NodeId, &TimedReading<TracedPath>)> {
        let nodes = self.nodes.iter();
        let paths = nodes.flat_map(|(&node, observed)| {
            let paths = observed.paths.values();
            paths.map(move |path| (node, path))
        });
        paths.filter(|(_, path)| is_of_probes(&path.value.flow))
    }

    /// The complete path of this node's packets with these fields.
    pub(crate) fn way(&self, from: NodeId, flow: &FlowKey) -> Option<Vec<Hop>> {
        self.traced(from, self.nodes.get(&from)?, flow)
    }

    /// The known part of a trace that did not reach its end.
    pub(crate) fn beginning(&self, from: NodeId, flow: &FlowKey) -> Option<Vec<Hop>> {
        let traced = self.trusted(self.nodes.get(&from)?, flow)?;
        let way = self.wiring.beginning(self.known.fabric, from, traced);
        (way.len() < traced.routers.len()).then_some(way)
    }

    /// The trace of this node's packets with these fields, of any age, and the facts about its nodes.
    pub(crate) fn passed(
        &self,
        from: NodeId,
        flow: &FlowKey,
    ) -> Option<(&TimedReading<TracedPath>, Vec<Passed>)> {
        let traced = self.nodes.get(&from)?.paths.get(flow)?;
        let passed = self.wiring.passed(self.fabric(), from, &traced.value);
        Some((traced, passed))
    }

    /// Recent reports, by node.
    pub(crate) fn reporting(&self) -> impl Iterator<Item = (NodeId, &NodeObservations)> {
        self.nodes.iter().map(|(&node, observed)| (node, *observed))
    }

    /// Flows that this node's agent sends or has traced.
    pub(crate) fn sent_or_traced(&self, from: NodeId) -> impl Iterator<Item = FlowKey> {
        let observed = self.nodes.get(&from).into_iter();
        observed.flat_map(|it| it.flows.keys().chain(it.paths.keys()).copied())
    }

    /// All next hops of any node's routes.
    pub(crate) fn gateways(&self) -> BTreeSet<Ipv4Addr> {
        let nodes = self.nodes.values();
        let interfaces = nodes.flat_map(|node| node.interfaces.values());
        let gateways = interfaces.flat_map(|it| it.value.gateways.iter());
        gateways.copied().collect()
    }

    /// The rail of the NIC with this address. A relay has no NICs: the place of the link among its links counts, or 0
    /// if it is unknown.
    pub(crate) fn rail(&self, node: NodeId, address: Ipv4Addr) -> u32 {
        let fabric = self.fabric();
        if let Some(nic) = self.wiring.nic(fabric, address) {
            return u32::from(fabric.nic(nic).rail);
        }
        let link = self.wiring.link(address);
        let mut links = fabric.links_of(node).iter();
        let place = links.position(|it| Some(*it) == link);
        place.map_or(0, |place| place as u32)
    }

    /// The addresses of the NICs for training of this rail.
    pub(crate) fn addresses_on(&self, rail: u16) -> BTreeSet<Ipv4Addr> {
        let fabric = self.fabric();
        let declared = fabric.nics().filter_map(|(_, nic)| nic.address);
        let mut addresses: BTreeSet<_> = self.wiring.addresses().into_keys().collect();
        addresses.extend(declared);
        addresses.retain(|address| {
            let nic = self.wiring.nic(fabric, *address);
            let nic = nic.map(|id| fabric.nic(id));
            nic.is_some_and(|nic| nic.rail == rail && nic.purpose == NicUse::Training)
        });
        addresses
    }

    fn traced(
        &self,
        from: NodeId,
        observed: &NodeObservations,
        flow: &FlowKey,
    ) -> Option<Vec<Hop>> {
        let traced = self.trusted(observed, flow)?;
        self.wiring.path(self.known.fabric, from, traced)
    }

    fn trusted<'o>(
        &self,
        observed: &'o NodeObservations,
        flow: &FlowKey,
    ) -> Option<&'o TracedPath> {
        let traced = observed.paths.get(flow)?;
        let trusted = traced.is_fresh(self.known.now, self.known.policy.trust_path_for());
        trusted.then_some(&traced.value)
    }
}

fn ago(now: Moment, age: Duration) -> Moment {
    let age_us = u64::try_from(age.as_micros()).unwrap_or(u64::MAX);
    Moment::from_micros(now.as_micros().saturating_sub(age_us))
}

#[cfg(test)]
mod tests;
