//! The simulated network: links that flows share like water, switches with pins, counters, and
//! routers that answer probes. It has its own clock, hash and model of rates.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use reweave_agent_core::flows::Socket;
use reweave_agent_core::links::LinkCount;
use reweave_agent_core::reconcile::RuleOp;
use reweave_common::fabric::{Fabric, Role};
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::ids::NodeId;
use reweave_common::moment::Moment;
use reweave_common::sample::Interface;
use reweave_common::snapshot::Hop;
use reweave_common::units::Bytes;

use super::chance::Chance;
use addresses::Addresses;
use fluid::{Stream, levels};
use forwarding::{Kernels, LinkChoices, Lost};

pub mod addresses;
mod fluid;
pub mod forwarding;
mod kernel;
mod probes;

pub use kernel::Kernel;

/// Linux counts busy time in ticks of so much.
const KERNEL_TICK: Duration = Duration::from_millis(4);
/// Less than a byte is nothing.
const MIN_QUEUED_BYTES: f64 = 1.0;
/// Flows that share a queue differ by up to so much.
const MAX_WEIGHT_DEVIATION: f64 = 0.03;

#[derive(Debug, Clone)]
pub struct Network {
    pub fabric: Arc<Fabric>,
    pub addresses: Addresses,
    pub kernels: Kernels,
    ways: LinkChoices,
    flows: BTreeMap<FlowKey, Flow>,
    /// Bytes that have passed each hop.
    carried: Vec<f64>,
    now: Moment,
    /// Number of flows that came or went.
    turnovers: u64,
    /// Pins have changed since the last question.
    rerouted: bool,
}

#[derive(Debug, Clone)]
struct Flow {
    ends: [NodeId; 2],
    /// Present path by the switches.
    way: Result<Vec<Hop>, Lost>,
    queued_bytes: f64,
    acked_bytes: f64,
    busy: Duration,
    weight: f64,
    bits_per_s: f64,
}

impl Network {
    pub fn new(fabric: Fabric, salt: u64, now: Moment) -> Self {
        let switches = fabric.nodes().filter(|(_, node)| node.role == Role::Switch);
        let kernels = switches.map(|(id, _)| (id, Kernel::default())).collect();
        let hops = 2 * fabric.links().len();
        let addresses = Addresses::new(&fabric);
        Self {
            ways: LinkChoices::new(&fabric, &addresses, salt),
            addresses,
            kernels,
            flows: BTreeMap::new(),
            carried: vec![0.0; hops],
            now,
            turnovers: 0,
            rerouted: false,
            fabric: Arc::new(fabric),
        }
    }

    pub fn node(&self, name: &str) -> NodeId {
        let found = self.fabric.find(name);
        found.unwrap_or_else(|| panic!("the fabric has no node {name}"))
    }

    /// One change to the pins of a switch, as its kernel takes it.
    pub fn change(&mut self, switch: NodeId, op: &RuleOp) -> Result<(), String> {
        self.kernel(switch).change(op)?;
        self.reroute();
        Ok(())
    }

    /// Another program, which should not, removes all pins of a switch.
    pub fn flush(&mut self, switch: NodeId) {
        self.kernel(switch).flush();
        self.reroute();
    }

    /// Whether the kernel of a switch refuses all rules from now on.
    pub fn refuse(&mut self, switch: NodeId, refuses: bool) {
        self.kernel(switch).refuses = refuses;
    }

    fn kernel(&mut self, switch: NodeId) -> &mut Kernel {
        self.kernels.get_mut(&switch).expect("it is a switch")
    }

    /// Whether pins have changed since this was last asked.
    pub fn take_rerouted(&mut self) -> bool {
        std::mem::take(&mut self.rerouted)
    }

    fn reroute(&mut self) {
        self.rerouted = true;
        for (key, flow) in &mut self.flows {
            flow.way = self.ways.path(&self.fabric, &self.kernels, key, flow.ends);
        }
    }

    pub fn open(&mut self, flow: FlowKey, ends: [NodeId; 2]) {
        self.turnovers += 1;
        let new = Flow {
            ends,
            way: self.ways.path(&self.fabric, &self.kernels, &flow, ends),
            queued_bytes: 0.0,
            acked_bytes: 0.0,
            busy: Duration::ZERO,
            weight: 1.0,
            bits_per_s: 0.0,
        };
        self.flows.insert(flow, new);
    }

    pub fn close(&mut self, flow: &FlowKey) {
        self.turnovers += 1;
        self.flows.remove(flow);
    }

    pub fn send(&mut self, flow: &FlowKey, bytes: Bytes) {
        if let Some(flow) = self.flows.get_mut(flow) {
            flow.queued_bytes += bytes.count() as f64;
        }
    }

    pub fn flows(&self) -> impl Iterator<Item = &FlowKey> {
        self.flows.keys()
    }

    pub fn turnovers(&self) -> u64 {
        self.turnovers
    }

    pub fn is_idle(&self, flow: &FlowKey) -> bool {
        self.flows
            .get(flow)
            .is_none_or(|flow| flow.queued_bytes == 0.0)
    }

    pub fn acked_bytes(&self, flow: &FlowKey) -> f64 {
        self.flows.get(flow).map_or(0.0, |flow| flow.acked_bytes)
    }

    /// Returns the present path of a flow's packets.
    pub fn way(&self, flow: &FlowKey) -> Result<&[Hop], Lost> {
        let way = self.flows[flow].way.as_ref();
        way.map(Vec::as_slice).map_err(|lost| *lost)
    }

    /// Whether a path that leads to the host ends at the NIC to whose address the flow goes.
    pub fn ends_at_nic(&self, flow: &FlowKey, way: &[Hop]) -> bool {
        let nic = self.addresses.nic_link(*flow.destination.ip());
        nic.is_none_or(|nic| way.last().is_some_and(|last| last.link == nic))
    }

    /// Returns the paths of all flows if the switches held these pins.
    pub fn ways_under(
        &self,
        kernels: &Kernels,
    ) -> impl Iterator<Item = (FlowKey, Result<Vec<Hop>, Lost>)> {
        let flows = self.flows.iter();
        flows.map(move |(key, flow)| {
            let way = self.ways.path(&self.fabric, kernels, key, flow.ends);
            (*key, way)
        })
    }

    /// Returns the path of such a flow by hashing alone.
    pub fn hashed_path(&self, flow: &FlowKey, ends: [NodeId; 2]) -> Vec<Hop> {
        let path = self.ways.path(&self.fabric, &Kernels::new(), flow, ends);
        path.expect("the fabric joins its hosts")
    }

    /// Everything flows at its last known rate until now.
    pub fn advance(&mut self, now: Moment) {
        let passed = now.since(self.now);
        self.now = now;
        for flow in self
            .flows
            .values_mut()
            .filter(|flow| flow.queued_bytes > 0.0)
        {
            let bytes = flow.bits_per_s / 8.0 * passed.as_secs_f64();
            let moved = bytes.min(flow.queued_bytes);
            flow.busy += passed;
            flow.acked_bytes += moved;
            flow.queued_bytes -= moved;
            if flow.queued_bytes < MIN_QUEUED_BYTES {
                flow.acked_bytes = (flow.acked_bytes + flow.queued_bytes).round();
                flow.queued_bytes = 0.0;
            }
            for hop in flow.way.iter().flatten() {
                self.carried[index(&self.fabric, *hop)] += moved;
            }
        }
    }

    /// Computes the rates after flows have begun, ended, or changed their paths.
    pub fn settle(&mut self) {
        let capacities = self.capacities();
        let sending = self
            .flows
            .values_mut()
            .filter(|flow| flow.queued_bytes > 0.0);
        let sending: Vec<_> = sending.collect();
        let streams = sending
            .iter()
            .map(|flow| stream(&self.fabric, &flow.way, flow.weight));
        let rates = levels(&capacities, &streams.collect::<Vec<_>>());
        for (flow, rate) in sending.into_iter().zip(rates) {
            flow.bits_per_s = rate;
        }
    }

    /// When the next flow has sent all that it has.
    pub fn next_idle(&self) -> Option<Moment> {
        let sending = self.flows.values().filter(|flow| flow.queued_bytes > 0.0);
        let moving = sending.filter(|flow| flow.bits_per_s > 0.0);
        let left = moving.map(|flow| flow.queued_bytes * 8.0 / flow.bits_per_s);
        let first = left.reduce(f64::min)?;
        Some(self.now + Duration::from_micros((first * 1e6).ceil() as u64))
    }

    /// Flows that share a queue never have quite the same.
    pub fn wander(&mut self, chance: &mut Chance) {
        for flow in self.flows.values_mut() {
            flow.weight = chance.share(1.0 - MAX_WEIGHT_DEVIATION, 1.0 + MAX_WEIGHT_DEVIATION);
        }
    }

    /// Returns the rate of each flow if all were sending and the switches held these pins.
    pub fn rates_under(&self, kernels: &Kernels) -> BTreeMap<FlowKey, f64> {
        let ways = self.ways_under(kernels);
        let streams = ways.map(|(_, way)| stream(&self.fabric, &way, 1.0));
        let rates = levels(&self.capacities(), &streams.collect::<Vec<_>>());
        self.flows.keys().copied().zip(rates).collect()
    }

    fn capacities(&self) -> Vec<f64> {
        let links = self.fabric.links();
        let both = links.flat_map(|(_, link)| [link.rate.bits_per_s() as f64; 2]);
        both.collect()
    }

    /// The TCP sockets that send at this host, as its kernel reports them.
    pub fn sockets(&self, host: NodeId) -> Vec<Socket> {
        let is_own =
            |(key, flow): &(&FlowKey, &Flow)| key.protocol == Protocol::Tcp && flow.ends[0] == host;
        let own = self.flows.iter().filter(is_own);
        let socket = |(key, flow): (&FlowKey, &Flow)| Socket {
            flow: *key,
            acked: Bytes::new(flow.acked_bytes as u64),
            received: Bytes::ZERO,
            busy: Some(KERNEL_TICK * (flow.busy.as_micros() / KERNEL_TICK.as_micros()) as u32),
            rtt: Some(Duration::from_micros(300)),
            retransmits: Some(0),
        };
        own.map(socket).collect()
    }

    /// The counters of a node's interfaces, as its kernel reports them.
    pub fn link_counts(&self, node: NodeId) -> Vec<LinkCount> {
        let bytes = |hop| Bytes::new(self.carried[index(&self.fabric, hop)] as u64);
        let ends = self.ends(node);
        let count = ends.map(|end| LinkCount {
            interface: addresses::interface_name(&self.fabric, end),
            up: true,
            sent: bytes(end),
            received: bytes(self.far(end)),
            dropped_packets: 0,
        });
        count.collect()
    }

    pub fn interfaces(&self, node: NodeId) -> Vec<Interface> {
        let ends = self.ends(node);
        ends.map(|end| addresses::interface(&self.fabric, end))
            .collect()
    }

    fn ends(&self, node: NodeId) -> impl Iterator<Item = Hop> {
        let links = self.fabric.links_of(node).iter();
        links.map(move |&link| Hop { from: node, link })
    }

    fn far(&self, hop: Hop) -> Hop {
        let from = self.fabric.link(hop.link).far(hop.from).node;
        Hop { from, ..hop }
    }
}

/// Packets that are lost on the way add no load here.
fn stream(fabric: &Fabric, way: &Result<Vec<Hop>, Lost>, weight: f64) -> Stream {
    let hops = way.iter().flatten();
    Stream {
        links: hops.map(|&hop| index(fabric, hop)).collect(),
        weight,
    }
}

/// The place of a hop among all.
fn index(fabric: &Fabric, hop: Hop) -> usize {
    let is_second = fabric.link(hop.link).a.node != hop.from;
    2 * hop.link.index() + usize::from(is_second)
}
