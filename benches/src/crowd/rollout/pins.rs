//! Two flows collide on one of two uplinks, and one of them is pinned to the other: time from the approval to the pin
//! in the switch. Then both end, and others collide.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};

use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::forwarding_state::ForwardingState;
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::lock::lock;
use reweave_common::operator::Request;
use reweave_common::sample::{Counters, FlowReading, Reading, TracedPath};
use reweave_common::units::{Bytes, Rate};

use super::followers::{Followers, World};
use super::operator::{approve, committed, offered};
use super::scenery::{Scenery, host_address, interface_name};
use super::tell;
use crate::load::until_all_report;
use crate::members::Members;
use crate::times::now;

const FABRIC: &str = "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 2\n\
                      host_gbps = 100\nuplink_gbps = 100\n";
const LINK_GBPS: f64 = 100.0;
const TURN_COUNT: usize = 20;
const MAX_TIME_MS: f64 = 50.0;
/// Source and destination hosts of the flows.
const FLOWS: [[&str; 2]; 2] = [["h0", "h2"], ["h1", "h3"]];

pub(crate) async fn measure() {
    let world = Arc::new(Collision::new());
    let nodes = world.scenery.nodes(|_, _| true);
    let names: Vec<_> = nodes.iter().map(|(_, name)| name.clone()).collect();
    let mut members = Members::among(FABRIC, 1, &names, "");
    members.start(0);
    let mut followers = Followers::of(&members, &nodes, &world);
    let mut operator = members.operator(0);
    until_all_report(&mut operator, nodes.len()).await;
    let mut held = vec![];
    for _ in 0..TURN_COUNT {
        world.next_turn();
        let generation = offered(&mut operator, &Request::Plan).await;
        followers.forget();
        let Some(said) = approve(&mut operator, generation).await else {
            break;
        };
        let at = followers.all_hold(generation, 1).await;
        held.extend(at.map(|at| at - said));
        if committed(&mut operator, generation).await.is_none() {
            break;
        }
    }
    tell("pin-held-by-its-switch", held, MAX_TIME_MS);
}

/// A flow that is alone gets the full rate of a link.
struct Collision {
    scenery: Scenery,
    /// Round: both flows restart with other ports.
    turn: AtomicU16,
    /// Uplinks of pinned flows, from the state of the first leaf.
    pinned: Mutex<BTreeMap<FlowKey, LinkId>>,
}

impl Collision {
    fn new() -> Self {
        Self {
            scenery: Scenery::of(FABRIC),
            turn: AtomicU16::new(0),
            pinned: Mutex::default(),
        }
    }

    fn next_turn(&self) {
        self.turn.fetch_add(1, Ordering::Relaxed);
    }

    fn node(&self, name: &str) -> NodeId {
        self.scenery.fabric.find(name).expect("it is there")
    }

    fn flows(&self, turn: u16) -> [FlowKey; 2] {
        FLOWS.map(|ends| {
            let [from, to] = ends.map(|name| host_address(self.node(name)));
            FlowKey {
                protocol: Protocol::Tcp,
                source: SocketAddrV4::new(from, 40_000 + turn),
                destination: SocketAddrV4::new(to, 5201),
            }
        })
    }

    fn now(&self) -> [FlowKey; 2] {
        self.flows(self.turn.load(Ordering::Relaxed))
    }

    /// Returns the first spine, unless the flow is pinned.
    fn spine(&self, flow: &FlowKey) -> NodeId {
        let uplink = lock(&self.pinned).get(flow).copied();
        let uplink = uplink.unwrap_or_else(|| self.scenery.link("leaf0-spine0"));
        let link = self.scenery.fabric.link(uplink);
        link.far(self.node("leaf0")).node
    }

    /// Returns the links of the flow, each with its sender.
    fn way(&self, flow: usize) -> Vec<(NodeId, LinkId)> {
        let [from, to] = FLOWS[flow].map(|name| self.node(name));
        let spine = self.spine(&self.now()[flow]);
        let [first, last] = ["leaf0", "leaf1"].map(|name| self.node(name));
        let nodes = [from, first, spine, last, to];
        let pairs = nodes.array_windows();
        let link = |&[from, to]: &[NodeId; 2]| {
            let mut links = self.scenery.fabric.links_between(from, to);
            (from, links.next().expect("they are joined"))
        };
        pairs.map(link).collect()
    }

    fn rate(&self) -> Rate {
        let [one, other] = self.now().map(|flow| self.spine(&flow));
        let share = if one == other { 0.5 } else { 1.0 };
        Rate::from_bits_per_s((share * LINK_GBPS * 1e9) as u64)
    }

    /// Returns the bytes as if the rate had always been the present one.
    fn bytes(rate: Rate) -> Bytes {
        Bytes::new((rate.bits_per_s() as f64 / 8.0 * now().as_secs_f64()) as u64)
    }

    fn of_flow(&self, flow: usize) -> [Reading; 3] {
        let turn = self.turn.load(Ordering::Relaxed);
        let (rate, key) = (self.rate(), self.flows(turn)[flow]);
        let way = self.way(flow);
        let inbound = |&(from, link): &(NodeId, LinkId)| {
            let far = self.scenery.fabric.link(link).far(from).node;
            Some(self.scenery.address(far, link))
        };
        [
            Reading::FlowEnded(self.flows(turn.wrapping_sub(1))[flow]),
            Reading::Flow(FlowReading {
                flow: key,
                bytes: Self::bytes(rate),
                rate: Some(rate),
                rtt: None,
                retransmits: Some(0),
            }),
            Reading::Path(TracedPath {
                flow: key,
                routers: way[..way.len() - 1].iter().map(inbound).collect(),
                confirmed: true,
            }),
        ]
    }

    fn link_at(&self, node: NodeId, interface: &str) -> LinkId {
        let links = self.scenery.fabric.links_of(node);
        let place = (0..links.len()).find(|place| interface_name(*place) == interface);
        links[place.expect("it is one of its own")]
    }

    fn load(&self, counters: &mut Counters, node: NodeId) {
        let link = self.link_at(node, &counters.interface);
        let ways: Vec<_> = (0..FLOWS.len()).flat_map(|flow| self.way(flow)).collect();
        let rate = |is_own: bool| {
            let over = ways
                .iter()
                .filter(|it| it.1 == link && (it.0 == node) == is_own);
            Rate::from_bits_per_s(over.count() as u64 * self.rate().bits_per_s())
        };
        let [sent, received] = [true, false].map(rate);
        (counters.sent, counters.received) = (Self::bytes(sent), Self::bytes(received));
        (counters.send_rate, counters.receive_rate) = (Some(sent), Some(received));
    }
}

impl World for Collision {
    fn readings(&self, node: NodeId, held: &ForwardingState) -> Vec<Reading> {
        if node == self.node("leaf0") {
            let rules = held.rules.iter();
            let pins = rules.map(|rule| (rule.flow, self.link_at(node, &rule.interface)));
            *lock(&self.pinned) = pins.collect();
        }
        let mut readings = self.scenery.readings(node, held);
        for reading in &mut readings {
            if let Reading::Counters(counters) = reading {
                self.load(counters, node);
            }
        }
        let sent = (0..FLOWS.len()).filter(|flow| self.node(FLOWS[*flow][0]) == node);
        readings.extend(sent.flat_map(|flow| self.of_flow(flow)));
        readings
    }
}
