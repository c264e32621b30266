//! Clusters in miniature for the tests of this room.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use proptest::test_runner::{Config, RngSeed};
use reweave_common::fabric::Fabric;
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::plan::{Generation, Pin};
use reweave_common::snapshot::{FlowState, Hop, LinkState, Snapshot};
use reweave_common::units::Rate;

use crate::maxmin::{Demand, max_min};

/// Payload over bytes on the wire.
const PAYLOAD_SHARE: f64 = 0.957;

/// The same cases in every run.
pub(crate) fn seeded(cases: u32) -> Config {
    Config {
        cases,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..Config::default()
    }
}

pub(crate) fn mbps(mbps: u64) -> Rate {
    Rate::from_bits_per_s(mbps * 1_000_000)
}

/// A fabric with flows on it. Its snapshot shows them sharing the hops max-min fairly.
pub(crate) struct Scene {
    pub(crate) fabric: Fabric,
    pub(crate) flows: Vec<Sending>,
    pub(crate) pins: Vec<Pin>,
    strangers: BTreeMap<Hop, Rate>,
    down: BTreeSet<LinkId>,
}

pub(crate) struct Sending {
    pub(crate) flow: FlowKey,
    pub(crate) path: Vec<Hop>,
    pub(crate) to: NodeId,
    /// The link of the NIC to which it is addressed, on a fabric that declares NICs.
    nic: Option<LinkId>,
    pub(crate) most: Option<Rate>,
}

impl Scene {
    /// Rates in Mb/s. Hosts are h0, h1, ... leaf by leaf.
    pub(crate) fn leaf_spine(leaves: u64, spines: u64, hosts: u64, host: u64, uplink: u64) -> Self {
        let [host, uplink] = [host, uplink].map(|mbps| mbps as f64 / 1e3);
        Self::of(&format!(
            "kind = \"leaf-spine\"\nleaves = {leaves}\nspines = {spines}\n\
             hosts_per_leaf = {hosts}\nhost_gbps = {host}\nuplink_gbps = {uplink}"
        ))
    }

    pub(crate) fn of(fabric: &str) -> Self {
        Self {
            fabric: Fabric::parse("fabric.toml", fabric).unwrap(),
            flows: Vec::new(),
            pins: Vec::new(),
            strangers: BTreeMap::new(),
            down: BTreeSet::new(),
        }
    }

    /// A flow that takes what it gets, on the first links between the nodes it passes.
    pub(crate) fn flow(&mut self, from: &str, to: &str, via: &[&str]) -> FlowKey {
        self.flow_on(from, to, self.path(from, to, via))
    }

    pub(crate) fn flow_on(&mut self, from: &str, to: &str, path: Vec<Hop>) -> FlowKey {
        let (flow, to) = (self.key(from, to), self.node(to));
        let last = path.last().map(|hop| hop.link);
        self.flows.push(Sending {
            flow,
            path,
            to,
            nic: last.filter(|_| self.fabric.has_declared_nics()),
            most: None,
        });
        flow
    }

    /// A flow that sends no more than this by itself.
    pub(crate) fn modest(&mut self, from: &str, to: &str, via: &[&str], most_mbps: u64) -> FlowKey {
        let flow = self.flow(from, to, via);
        self.flows.last_mut().unwrap().most = Some(mbps(most_mbps));
        flow
    }

    pub(crate) fn path(&self, from: &str, to: &str, via: &[&str]) -> Vec<Hop> {
        let nodes: Vec<_> = [from].iter().chain(via).chain(&[to]).copied().collect();
        nodes
            .windows(2)
            .map(|pair| self.hop(pair[0], pair[1]))
            .collect()
    }

    /// Traffic of which nothing is known but the load.
    pub(crate) fn strangers(&mut self, from: &str, to: &str, load_mbps: u64) {
        let hop = self.hop(from, to);
        self.strangers.insert(hop, mbps(load_mbps));
    }

    pub(crate) fn down(&mut self, from: &str, to: &str) {
        let link = self.hop(from, to).link;
        self.down.insert(link);
    }

    pub(crate) fn pin(&mut self, flow: FlowKey, at: &str, next: &str) -> Pin {
        let Hop { from: at, link } = self.hop(at, next);
        let pin = Pin { flow, at, link };
        self.pins.push(pin);
        pin
    }

    pub(crate) fn node(&self, name: &str) -> NodeId {
        self.fabric.find(name).unwrap()
    }

    pub(crate) fn hop(&self, from: &str, to: &str) -> Hop {
        let [from, to] = [from, to].map(|name| self.node(name));
        let link = self.fabric.links_between(from, to).next().unwrap();
        Hop { from, link }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let rates = self.rates();
        let flows = self
            .flows
            .iter()
            .zip(&rates)
            .map(|(flow, &rate)| flow_state(flow, rate));
        Snapshot {
            generation: Generation(4),
            flows: flows.collect(),
            links: self.link_states(&rates),
            lossy: BTreeMap::new(),
            drained: BTreeSet::new(),
            pins: self.pins.clone(),
            unpinnable: BTreeSet::new(),
            tables: BTreeMap::new(),
            circuits: BTreeMap::new(),
            beating: Vec::new(),
            fabric: Arc::new(self.fabric.clone()),
        }
    }

    /// Wire rates of the flows.
    pub(crate) fn rates(&self) -> Vec<Rate> {
        let places = |flow: &Sending| flow.path.iter().map(|&hop| self.place(hop)).collect();
        let places: Vec<Vec<_>> = self.flows.iter().map(places).collect();
        let sending = self.flows.iter().zip(&places);
        let demands: Vec<_> = sending
            .map(|(flow, hops)| Demand {
                hops,
                most: flow.most,
            })
            .collect();
        let shares = max_min(&self.capacities(), &demands);
        shares.into_iter().map(|share| share.rate).collect()
    }

    fn hops(&self) -> impl Iterator<Item = Hop> {
        let ends = self.fabric.links().map(|(link, ends)| (link, ends.ports()));
        ends.flat_map(|(link, ports)| {
            ports.map(|port| Hop {
                from: port.node,
                link,
            })
        })
    }

    /// Returns the index of a hop in `hops`.
    fn place(&self, hop: Hop) -> usize {
        2 * hop.link.index() + usize::from(self.fabric.link(hop.link).a.node != hop.from)
    }

    fn stranger(&self, hop: Hop) -> Rate {
        self.strangers.get(&hop).copied().unwrap_or(mbps(0))
    }

    fn capacities(&self) -> Vec<Rate> {
        let left = |hop: Hop| {
            let nominal = self.fabric.link(hop.link).rate.bits_per_s();
            Rate::from_bits_per_s(nominal - self.stranger(hop).bits_per_s())
        };
        self.hops().map(left).collect()
    }

    fn link_states(&self, rates: &[Rate]) -> BTreeMap<Hop, LinkState> {
        let state = |hop: Hop| {
            let on_it = self
                .flows
                .iter()
                .zip(rates)
                .filter(|(flow, _)| flow.path.contains(&hop));
            let load: u64 = on_it.map(|(_, rate)| rate.bits_per_s()).sum();
            let rate = Rate::from_bits_per_s(load + self.stranger(hop).bits_per_s());
            let up = !self.down.contains(&hop.link);
            (
                hop,
                LinkState {
                    up,
                    rate,
                    age: Duration::from_millis(400),
                },
            )
        };
        self.hops().map(state).collect()
    }

    fn key(&self, from: &str, to: &str) -> FlowKey {
        let address = |name| Ipv4Addr::new(10, 0, 0, self.node(name).index() as u8 + 1);
        let port = 40_000 + self.flows.len() as u16;
        FlowKey {
            protocol: Protocol::Tcp,
            source: SocketAddrV4::new(address(from), port),
            destination: SocketAddrV4::new(address(to), 5201),
        }
    }
}

/// Returns the state of a flow as measured: payload rate, with readings within two percent.
fn flow_state(flow: &Sending, wire: Rate) -> FlowState {
    let part = |share: f64| Rate::from_bits_per_s((wire.bits_per_s() as f64 * share) as u64);
    FlowState {
        flow: flow.flow,
        from: flow.path[0].from,
        to: flow.to,
        nic: flow.nic,
        rate: part(PAYLOAD_SHARE),
        rate_range: [part(PAYLOAD_SHARE * 0.98), part(PAYLOAD_SHARE * 1.02)],
        path: Some(flow.path.clone()),
        age: Duration::from_millis(300),
    }
}
