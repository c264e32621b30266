//! A small network with agents for tests of the core: two leaves, and a few spines and hosts. It has its own hash and
//! rate model.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use reweave_common::fabric::{Fabric, Role};
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::hardware::Lack;
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::instruction::Watch;
use reweave_common::moment::Moment;
use reweave_common::probing::{
    Large, LossByDirection, ProbeList, ProbePart, ProbeReading, ProbeTally, Unsent,
};
use reweave_common::sample::{
    Counters, FlowReading, HostReading, Interface, Reading, Sample, TracedPath,
};
use reweave_common::snapshot::Hop;
use reweave_common::time_span::TimeSpan;
use reweave_common::units::{Bytes, Rate};

use super::mock_switch::Switch;
use crate::estimate::probe_paths::is_of_probes;

pub(crate) struct Network {
    pub(crate) fabric: Arc<Fabric>,
    pub(crate) flows: BTreeMap<FlowKey, Flow>,
    pub(crate) switches: BTreeMap<NodeId, Switch>,
    watches: BTreeMap<NodeId, Watch>,
    down: BTreeSet<LinkId>,
    pub(crate) probes: BTreeMap<NodeId, ProbeList>,
    /// Hops that lose one probe in ten.
    pub(crate) lossy: BTreeSet<Hop>,
    /// Hops that drop all packets.
    pub(crate) dead: BTreeSet<Hop>,
    /// Hops that drop packets as large as their sender's MTU.
    pub(crate) narrow: BTreeSet<Hop>,
    /// The largest rate of these hosts' flows in bits per second, on any links.
    pub(crate) caps: BTreeMap<NodeId, f64>,
    /// Hosts whose kernel sends no probe to the last host.
    pub(crate) mute: BTreeSet<NodeId>,
    /// The additional latency of hops in microseconds.
    pub(crate) slow_us: BTreeMap<Hop, u64>,
    /// The queueing delay before each full hop, seen by NIC timestamps.
    pub(crate) queues_us: Option<u64>,
    /// The spine that leaves send no probes to; they use the next one instead.
    pub(crate) shunned: Option<usize>,
    /// Hosts whose kernel sees none of their flows.
    pub(crate) past_the_kernel: BTreeSet<NodeId>,
    /// The missing capabilities in each sample.
    pub(crate) lacks: BTreeMap<NodeId, Vec<Lack>>,
    ended: Vec<FlowKey>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Flow {
    pub(crate) from: NodeId,
    to: NodeId,
    /// The spine that the leaf's hash selects.
    spine: usize,
    /// Its sender is idle.
    idle: bool,
}

impl Network {
    pub(crate) fn new(spines: usize, hosts_per_leaf: usize) -> Self {
        let text = format!(
            "kind = \"leaf-spine\"\nleaves = 2\nspines = {spines}\n\
             hosts_per_leaf = {hosts_per_leaf}\nhost_gbps = 0.2\nuplink_gbps = 0.1"
        );
        Self::of(&text)
    }

    /// A fabric with nodes named as in leaf-spine.
    pub(crate) fn of(text: &str) -> Self {
        let fabric = Arc::new(Fabric::parse("fabric.toml", text).unwrap());
        let switches = fabric.nodes().filter(|(_, node)| node.role != Role::Host);
        let switches = switches.map(|(id, _)| (id, Switch::default())).collect();
        Self {
            fabric,
            flows: BTreeMap::new(),
            switches,
            watches: BTreeMap::new(),
            down: BTreeSet::new(),
            probes: BTreeMap::new(),
            lossy: BTreeSet::new(),
            dead: BTreeSet::new(),
            narrow: BTreeSet::new(),
            caps: BTreeMap::new(),
            mute: BTreeSet::new(),
            slow_us: BTreeMap::new(),
            queues_us: None,
            shunned: None,
            past_the_kernel: BTreeSet::new(),
            lacks: BTreeMap::new(),
            ended: Vec::new(),
        }
    }

    pub(crate) fn node(&self, name: &str) -> NodeId {
        self.fabric.find(name).unwrap()
    }

    pub(crate) fn switch(&mut self, name: &str) -> &mut Switch {
        let node = self.node(name);
        self.switches.get_mut(&node).unwrap()
    }

    /// Starts a greedy flow that hashes to that spine.
    pub(crate) fn start(&mut self, from: &str, to: &str, port: u16, spine: usize) -> FlowKey {
        let [from, to] = [from, to].map(|name| host_address(self.node(name)));
        let key = FlowKey {
            protocol: Protocol::Tcp,
            source: SocketAddrV4::new(from, port),
            destination: SocketAddrV4::new(to, 5000),
        };
        self.start_as(key, spine)
    }

    /// The same with these fields.
    pub(crate) fn start_as(&mut self, key: FlowKey, spine: usize) -> FlowKey {
        let node = |end: SocketAddrV4| NodeId::from_index(end.ip().to_bits() as usize & 0xffff);
        let flow = Flow {
            from: node(key.source),
            to: node(key.destination),
            spine,
            idle: false,
        };
        self.flows.insert(key, flow);
        key
    }

    /// The return traffic, which hashes to that spine.
    pub(crate) fn answer(&mut self, key: FlowKey, spine: usize) {
        let Flow { from, to, .. } = self.flows[&key];
        let flow = Flow {
            from: to,
            to: from,
            spine,
            idle: false,
        };
        self.flows.insert(key.reversed(), flow);
    }

    pub(crate) fn fail(&mut self, a: &str, b: &str) {
        let link = self.link(a, b);
        self.down.insert(link);
    }

    pub(crate) fn mend(&mut self, a: &str, b: &str) {
        let link = self.link(a, b);
        self.down.remove(&link);
    }

    /// The name of a node's interface to this neighbour.
    pub(crate) fn interface(&self, node: NodeId, to: &str) -> String {
        let link = self.link(self.fabric.name(node), to);
        let links = self.fabric.links_of(node);
        let place = links.iter().position(|it| *it == link).unwrap();
        interface_name(&self.fabric, node, place)
    }

    fn link(&self, a: &str, b: &str) -> LinkId {
        let [a, b] = [a, b].map(|name| self.node(name));
        self.fabric.links_between(a, b).next().unwrap()
    }

    /// Whether the flow's packets arrive. Without a routing protocol, leaves do not know which links are down
    /// elsewhere.
    pub(crate) fn arrives(&self, key: &FlowKey) -> bool {
        let path = self.path(key, &self.flows[key]);
        path.iter().all(|hop| !self.down.contains(&hop.link))
    }

    pub(crate) fn pause(&mut self, flow: FlowKey) {
        self.flows.get_mut(&flow).unwrap().idle = true;
    }

    pub(crate) fn end(&mut self, flow: FlowKey) {
        self.flows.remove(&flow).unwrap();
        self.ended.push(flow);
    }

    pub(crate) fn watch(&mut self, node: NodeId, watch: Watch) {
        self.watches.insert(node, watch);
    }

    pub(crate) fn probe(&mut self, node: NodeId, list: ProbeList) {
        self.probes.insert(node, list);
    }

    /// The sample of a node's agent at this moment.
    pub(crate) fn sample(&mut self, node: NodeId, now: Moment) -> Sample {
        let mut readings = self.interfaces(node);
        readings.extend(self.counters(node, now));
        readings.extend(self.flow_readings(node, now));
        let nics = 0..self.fabric.links_of(node).len();
        let addresses: Vec<_> = nics.map(|nic| nic_address(node, nic)).collect();
        let own = |flow: &FlowKey| addresses.contains(flow.source.ip());
        let ended: Vec<_> = self.ended.extract_if(.., |flow| own(flow)).collect();
        readings.extend(ended.into_iter().map(Reading::FlowEnded));
        readings.extend(self.traces(node));
        readings.extend(self.switches.get(&node).map(Switch::read_back));
        let lacks = self.lacks.get(&node).into_iter().flatten().cloned();
        readings.extend(lacks.map(|lack| Reading::Host(HostReading::Lack(lack))));
        Sample {
            taken: now,
            readings,
        }
    }

    fn interfaces(&self, node: NodeId) -> Vec<Reading> {
        let links = self.fabric.links_of(node).iter();
        let interface = |(index, &link): (usize, &LinkId)| {
            let far = self.fabric.link(link).far(node).node;
            let (own, other) = (
                link_address(&self.fabric, node, link),
                link_address(&self.fabric, far, link),
            );
            let (addresses, gateways) = match self.fabric.node(node).role {
                Role::Host => (vec![nic_address(node, index)], vec![other]),
                Role::Switch => (vec![own], vec![]),
                Role::Relay => (vec![own, nic_address(node, index)], vec![other]),
            };
            Reading::Interface(Interface {
                name: interface_name(&self.fabric, node, index),
                addresses,
                gateways,
            })
        };
        links.enumerate().map(interface).collect()
    }

    /// Counters as if everything had always been as it is now.
    fn counters(&self, node: NodeId, now: Moment) -> Vec<Reading> {
        let loads = self.loads();
        let rate = |hop| {
            Some(Rate::from_bits_per_s(
                loads.get(&hop).copied().unwrap_or(0.0) as u64,
            ))
        };
        let count = |hop| {
            let bits_per_us = loads.get(&hop).copied().unwrap_or(0.0) / 1e6;
            Bytes::new((bits_per_us * now.as_micros() as f64 / 8.0) as u64)
        };
        let of_link = |(index, &link): (usize, &LinkId)| {
            let far = self.fabric.link(link).far(node).node;
            Reading::Counters(Counters {
                interface: interface_name(&self.fabric, node, index),
                up: !self.down.contains(&link),
                sent: count(Hop { from: node, link }),
                received: count(Hop { from: far, link }),
                dropped_packets: 0,
                send_rate: rate(Hop { from: node, link }),
                receive_rate: rate(Hop { from: far, link }),
            })
        };
        self.fabric
            .links_of(node)
            .iter()
            .enumerate()
            .map(of_link)
            .collect()
    }

    fn flow_readings(&self, node: NodeId, now: Moment) -> Vec<Reading> {
        let rates = self.rates();
        let is_seen = !self.past_the_kernel.contains(&node);
        let own = self
            .flows
            .iter()
            .filter(|(_, flow)| is_seen && flow.from == node);
        let reading = |(&key, _): (&FlowKey, _)| {
            let rate = rates.get(&key).copied();
            let bytes = rate.unwrap_or_default() / 8e6 * now.as_micros() as f64;
            let rate = rate.map(|rate| rate * wander(key.source.port(), now));
            Reading::Flow(FlowReading {
                flow: key,
                bytes: Bytes::new(bytes as u64),
                rate: rate.map(|rate| Rate::from_bits_per_s(rate as u64)),
                rtt: Some(TimeSpan::from_micros(300)),
                retransmits: Some(0),
            })
        };
        own.map(reading).collect()
    }

    fn traces(&self, node: NodeId) -> Vec<Reading> {
        let wanted = self
            .watches
            .get(&node)
            .into_iter()
            .flat_map(|watch| &watch.trace);
        let known = wanted.filter_map(|&flow| Some((flow, self.known(&flow)?)));
        let trace = |(flow, at): (FlowKey, Flow)| {
            let path = self.path(&flow, &at);
            // A host behind a dead hop receives nothing to answer.
            let is_dead = |hop: &Hop| self.dead.contains(hop);
            let seen = path.iter().position(is_dead).unwrap_or(path.len());
            let routers = path[..path.len() - 1].iter().enumerate();
            let routers = routers.map(|(place, hop)| {
                let far = self.fabric.link(hop.link).far(hop.from).node;
                (place < seen).then(|| link_address(&self.fabric, far, hop.link))
            });
            Reading::Path(TracedPath {
                flow,
                routers: routers.collect(),
                confirmed: seen == path.len(),
            })
        };
        known.map(trace).collect()
    }

    fn known(&self, key: &FlowKey) -> Option<Flow> {
        let of_probes = || is_of_probes(key).then(|| self.probe_flow(key));
        self.flows.get(key).copied().or_else(of_probes)
    }

    pub(crate) fn probe_flow(&self, key: &FlowKey) -> Flow {
        let node = |address: &Ipv4Addr| NodeId::from_index(address.to_bits() as usize & 0xffff);
        let spines = self
            .fabric
            .nodes()
            .filter(|(_, node)| node.name.starts_with("spine"));
        let mixed =
            key.source.port() / 3 + key.destination.port() + u16::from(key.source.ip().octets()[3]);
        let (spine, count) = (usize::from(mixed), spines.count().max(1));
        let is_shunned = self.shunned == Some(spine % count);
        Flow {
            from: node(key.source.ip()),
            to: node(key.destination.ip()),
            spine: (spine + usize::from(is_shunned)) % count,
            idle: false,
        }
    }

    /// The results of twenty probes of each flow in this host's list.
    pub(crate) fn probed(&self, node: NodeId) -> Vec<Reading> {
        let flows = self
            .probes
            .get(&node)
            .into_iter()
            .flat_map(|list| &list.flows);
        let full = self.full();
        let reading = |&flow: &FlowKey| {
            let lost = |flow: FlowKey| {
                let path = self.path(&flow, &self.probe_flow(&flow));
                2 * path.iter().filter(|hop| self.lossy.contains(hop)).count() as u32
            };
            let both = [flow, flow.reversed()];
            let both = both.map(|flow| self.path(&flow, &self.probe_flow(&flow)));
            // Without any answer, the direction of a loss is unknown.
            let lost = if both.iter().flatten().any(|hop| self.dead.contains(hop)) {
                LossByDirection {
                    somewhere: 20,
                    ..LossByDirection::default()
                }
            } else {
                LossByDirection {
                    there: lost(flow),
                    back: lost(flow.reversed()),
                    somewhere: 0,
                }
            };
            if self.mute.contains(&node) && *flow.destination.ip() == host_address(self.node("h7"))
            {
                return unsent(flow);
            }
            let way = self.path(&flow, &self.probe_flow(&flow));
            let is_narrow = way.iter().any(|hop| self.narrow.contains(hop));
            let large = if is_narrow {
                Large {
                    arrived: 0,
                    lost: 2,
                }
            } else {
                Large {
                    arrived: 2,
                    lost: 0,
                }
            };
            let mut tally = ProbeTally {
                answered: 20 - lost.there - lost.back - lost.somewhere,
                lost,
                large,
                ..ProbeTally::default()
            };
            let hops = both.concat();
            let slow_us = hops.iter().filter_map(|hop| self.slow_us.get(hop));
            let queues_us = self.queues_us.unwrap_or(0);
            let queued = hops.iter().filter(|hop| full.contains(hop)).count() as u64;
            let micros = 10 * hops.len() as u64 + slow_us.sum::<u64>() + queued * queues_us;
            if self.queues_us.is_some() {
                tally.stamped.hardware = tally.answered;
            }
            tally
                .times
                .record(ProbePart::Network, Duration::from_micros(micros));
            Reading::Probes(Box::new(ProbeReading { flow, tally }))
        };
        flows.map(reading).collect()
    }

    /// The shorter way around a ring; of two equal ones, by the hash.
    fn around(&self, flow: &Flow, mixed: u16) -> Vec<Hop> {
        let count = self.fabric.nodes().len();
        let [from, to] = [flow.from, flow.to].map(NodeId::index);
        let ahead = (to + count - from) % count;
        let is_ahead = 2 * ahead < count || 2 * ahead == count && mixed.is_multiple_of(2);
        let (steps, step) = if is_ahead {
            (ahead, 1)
        } else {
            (count - ahead, count - 1)
        };
        let hop = |nth: usize| {
            let [at, next] =
                [nth, nth + 1].map(|nth| NodeId::from_index((from + nth * step) % count));
            let link = self.fabric.links_between(at, next).next().unwrap();
            Hop { from: at, link }
        };
        (0..steps).map(hop).collect()
    }

    /// Host, leaf, spine, leaf, host; leaves follow their rules.
    pub(crate) fn path(&self, key: &FlowKey, flow: &Flow) -> Vec<Hop> {
        if self.fabric.node(flow.from).role == Role::Relay {
            return self.around(flow, key.source.port() + key.destination.port());
        }
        let [first, arrival] = [(flow.from, key.source), (flow.to, key.destination)]
            .map(|(host, end)| self.nic_link(host, *end.ip()));
        let leaf = self.fabric.link(first).far(flow.from).node;
        let last = self.fabric.link(arrival).far(flow.to).node;
        let first = Hop {
            from: flow.from,
            link: first,
        };
        let down = Hop {
            from: last,
            link: arrival,
        };
        if leaf == last {
            return vec![first, down];
        }
        let hashed = self.cable(leaf, self.node(&format!("spine{}", flow.spine)), key);
        let pinned = self.pinned(leaf, key);
        let up = pinned.unwrap_or_else(|| self.routed(leaf, key, hashed));
        let spine = self.fabric.link(up).far(leaf).node;
        let across = self.cable(spine, last, key);
        vec![
            first,
            Hop {
                from: leaf,
                link: up,
            },
            Hop {
                from: spine,
                link: across,
            },
            down,
        ]
    }

    /// The link of the host's NIC with this address: packets leave and arrive there alone.
    fn nic_link(&self, host: NodeId, address: Ipv4Addr) -> LinkId {
        let links = self.fabric.links_of(host);
        let is_own = |nic: &usize| nic_address(host, *nic) == address;
        let nic = (0..links.len()).find(is_own);
        links[nic.unwrap_or_default()]
    }

    /// The parallel cable that the node's hash selects.
    fn cable(&self, from: NodeId, to: NodeId, key: &FlowKey) -> LinkId {
        let links: Vec<_> = self.fabric.links_between(from, to).collect();
        let mixed = usize::from(key.source.port()) + usize::from(key.destination.port());
        links[mixed / (1 + from.index() % 3) % links.len()]
    }

    /// The next hop by the switch's routes for this address: with weights, flows are assigned in turn; otherwise by the
    /// hash if it is among them, or the first one.
    fn routed(&self, switch: NodeId, key: &FlowKey, hashed: LinkId) -> LinkId {
        let mut routes = self.switches[&switch].routes.iter();
        let Some(route) = routes.find(|route| route.destination == *key.destination.ip()) else {
            return hashed;
        };
        if route
            .hops
            .iter()
            .any(|hop| hop.weight != route.hops[0].weight)
        {
            let all = route.hops.iter();
            let mut slots = all.flat_map(|hop| iter::repeat_n(hop, hop.weight as usize));
            let slots_count: u32 = route.hops.iter().map(|hop| hop.weight).sum();
            let slot = u32::from(key.source.port()) % slots_count;
            let hop = slots.nth(slot as usize).unwrap();
            return self.link_of(switch, &hop.interface).unwrap();
        }
        let interfaces = route.hops.iter().map(|hop| &hop.interface[..]);
        let links = interfaces.filter_map(|name| self.link_of(switch, name));
        let links: Vec<_> = links.collect();
        if links.contains(&hashed) {
            hashed
        } else {
            links[0]
        }
    }

    fn link_of(&self, node: NodeId, interface: &str) -> Option<LinkId> {
        let mut links = self.fabric.links_of(node).iter().enumerate();
        let found = links.find(|(i, _)| interface_name(&self.fabric, node, *i) == interface);
        found.map(|(_, &link)| link)
    }

    fn pinned(&self, switch: NodeId, key: &FlowKey) -> Option<LinkId> {
        let rule = self.switches[&switch]
            .rules
            .iter()
            .find(|rule| rule.flow == *key)?;
        self.link_of(switch, &rule.interface)
    }

    /// The link by which a flow leaves its first leaf.
    pub(crate) fn uplink(&self, key: &FlowKey) -> String {
        let path = self.path(key, &self.flows[key]);
        self.fabric.link_name(path[1].link)
    }

    /// The max-min fair rate of each flow.
    pub(crate) fn rates(&self) -> BTreeMap<FlowKey, f64> {
        let paths: BTreeMap<_, _> = self
            .flows
            .iter()
            .filter(|(key, flow)| !flow.idle && self.arrives(key))
            .map(|(key, flow)| (*key, self.path(key, flow)))
            .collect();
        let mut room = BTreeMap::new();
        for &hop in paths.values().flatten() {
            room.insert(hop, self.fabric.link(hop.link).rate.bits_per_s() as f64);
        }
        let mut rates = BTreeMap::new();
        while rates.len() < paths.len() {
            let open = |hop: &Hop| {
                let waits = |(key, path): &(&FlowKey, &Vec<Hop>)| {
                    !rates.contains_key(*key) && path.contains(hop)
                };
                paths.iter().filter(waits).count()
            };
            let shares = room.iter().filter(|(hop, _)| open(hop) > 0);
            let shares = shares.map(|(&hop, room)| (room / open(&hop) as f64, hop));
            let (share, tightest) = shares.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
            let held: Vec<_> = paths
                .iter()
                .filter(|(key, path)| !rates.contains_key(*key) && path.contains(&tightest))
                .collect();
            for (key, path) in held {
                rates.insert(*key, share);
                path.iter()
                    .for_each(|hop| *room.get_mut(hop).unwrap() -= share);
            }
        }
        for (key, rate) in &mut rates {
            let flow = self.flows[key];
            let caps = [flow.from, flow.to].into_iter();
            let caps = caps.filter_map(|host| self.caps.get(&host).copied());
            *rate = caps.fold(*rate, f64::min);
        }
        rates
    }

    /// The full links.
    fn full(&self) -> BTreeSet<Hop> {
        let rate = |hop: &Hop| self.fabric.link(hop.link).rate.bits_per_s() as f64;
        let loads = self.loads().into_iter();
        let full = loads.filter(|(hop, load)| *load > 0.9 * rate(hop));
        full.map(|(hop, _)| hop).collect()
    }

    fn loads(&self) -> BTreeMap<Hop, f64> {
        let rates = self.rates();
        let mut loads = BTreeMap::new();
        for (key, flow) in &self.flows {
            for hop in self.path(key, flow) {
                *loads.entry(hop).or_default() += rates.get(key).unwrap_or(&0.0);
            }
        }
        loads
    }
}

/// Readings of a steady flow differ by up to two percent.
fn wander(port: u16, now: Moment) -> f64 {
    let mixed = (now.as_micros() / 1000 + u64::from(port) * 7).wrapping_mul(2_654_435_761) >> 16;
    0.98 + (mixed % 1000) as f64 * 0.00002
}

pub(crate) fn host_address(node: NodeId) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 0).to_bits() + node.index() as u32)
}

/// The address of one of a host's several NICs.
pub(super) fn nic_address(node: NodeId, nic: usize) -> Ipv4Addr {
    Ipv4Addr::from_bits(host_address(node).to_bits() + ((nic as u32) << 16))
}

pub(super) fn link_address(fabric: &Fabric, node: NodeId, link: LinkId) -> Ipv4Addr {
    let end = u32::from(fabric.link(link).a.node != node);
    let first = Ipv4Addr::new(10, 192, 0, 0).to_bits();
    Ipv4Addr::from_bits(first + link.index() as u32 * 2 + end)
}

fn interface_name(fabric: &Fabric, node: NodeId, index: usize) -> String {
    let kind = if fabric.node(node).role == Role::Host {
        "eth"
    } else {
        "swp"
    };
    format!("{kind}{index}")
}

/// The host's firewall drops all probes of a flow.
fn unsent(flow: FlowKey) -> Reading {
    let unsent = Unsent {
        forbidden: 20,
        ..Unsent::default()
    };
    let tally = ProbeTally {
        unsent,
        ..ProbeTally::default()
    };
    Reading::Probes(Box::new(ProbeReading { flow, tally }))
}
