//! Hosts with two NICs, each at another switch.

use std::net::{Ipv4Addr, SocketAddrV4};

use reweave_common::bandwidth::{Bandwidth, BandwidthReading};
use reweave_common::cause::Class;
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::ids::NodeId;
use reweave_common::operator::{Mode, Refused, Request, Response};
use reweave_common::probing::PROBE_PORT;
use reweave_common::sample::Reading;
use reweave_common::units::Rate;

use super::cluster::Cluster;
use super::diagnosis::{causes, only, say};
use super::network::{Network, nic_address};
use super::scene::SETTLE_TIME;

const RACK_LEAVES: [[&str; 2]; 2] = [["leaf0", "leaf1"], ["leaf2", "leaf3"]];

/// Four hosts at the first two leaves, and two at the others, whose NICs are swapped.
fn rails(swapped: [usize; 2]) -> Cluster {
    let node = |name: &str, role: &str| format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\n");
    let cables = |host: usize| {
        let mut leaves = RACK_LEAVES[host / 4];
        if swapped.contains(&host) {
            leaves.reverse();
        }
        leaves.map(|leaf| format!("[[link]]\na = \"h{host}\"\nb = \"{leaf}\"\ngbps = 1\n"))
    };
    let leaves = RACK_LEAVES
        .concat()
        .into_iter()
        .map(|leaf| node(leaf, "switch"));
    let hosts = (0..6).map(|host| node(&format!("h{host}"), "host"));
    let nodes: String = leaves.chain(hosts).collect();
    let cables: String = (0..6).flat_map(cables).collect();
    let text = format!("kind = \"graph\"\n{nodes}{cables}");
    let mut cluster = Cluster::on(Network::of(&text), Mode::Manual);
    cluster.run_for(SETTLE_TIME);
    cluster
}

/// If only two hosts differ, it is unknown which one is wrong.
#[test]
fn host_with_swapped_cables_is_named() {
    let swapped = (Class::ConfigurationMismatch, "h2".to_owned());
    assert_eq!(only(&mut rails([2, 5])), swapped);
}

/// Four hosts with a NIC at each of two leaves, with these addresses in the fabric's file.
fn spined(address: fn(NodeId) -> Ipv4Addr) -> Cluster {
    let switches = ["leaf0", "leaf1", "leaf2", "leaf3", "spine0", "spine1"];
    let node = |name: &str| format!("[[node]]\nname = \"{name}\"\nrole = \"switch\"\n");
    let host = |number: usize| {
        let address = address(NodeId::from_index(switches.len() + number));
        format!("[[node]]\nname = \"h{number}\"\nrole = \"host\"\naddress = \"{address}\"\n")
    };
    let cable = |a: &str, b: &str| format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\ngbps = 1\n");
    let nodes: String = switches.into_iter().map(node).collect();
    let hosts: String = (0..4).map(host).collect();
    let nics = (0..4)
        .flat_map(|number| RACK_LEAVES[number / 2].map(|leaf| cable(&format!("h{number}"), leaf)));
    let uplinks = switches[..4]
        .iter()
        .flat_map(|leaf| ["spine0", "spine1"].map(|spine| cable(leaf, spine)));
    let cables: String = nics.chain(uplinks).collect();
    let text = format!("kind = \"graph\"\n{nodes}{hosts}{cables}");
    let mut cluster = Cluster::on(Network::of(&text), Mode::Manual);
    cluster.run_for(SETTLE_TIME);
    cluster
}

fn drain(cluster: &mut Cluster) -> Response {
    let links = vec!["leaf0-spine0".to_owned()];
    cluster.ask(Request::Drain { links })
}

#[test]
fn drain_of_one_rail_is_refused() {
    let mut cluster = spined(|host| nic_address(host, 0));
    let refused = drain(&mut cluster);
    let host = cluster.network.node("h0");
    let [routed, other] = [0, 1].map(|nic| nic_address(host, nic));
    let reason = format!(
        "routes lead to h0 by its address {routed} alone, and flows to {other} would stay where they are"
    );
    let reasons = vec![reason];
    assert_eq!(refused, Response::Refused(Refused::Unfit { reasons }));
    // An address of the host that belongs to none of its NICs.
    let mut cluster = spined(|host| nic_address(host, 9));
    let planned = drain(&mut cluster);
    assert!(
        matches!(planned, Response::Plan { plan: Some(_), .. }),
        "{planned:?}"
    );
}

/// Four hosts with two NICs each, which the fabric's file declares.
fn declared() -> Cluster {
    let switches = ["leaf0", "leaf1", "leaf2", "leaf3", "spine0", "spine1"];
    let node = |name: &str, role: &str| format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\n");
    let nic = |host: usize, leaf: &str| {
        format!("[[nic]]\nhost = \"h{host}\"\nto = \"{leaf}\"\ngbps = 1\n")
    };
    let cable = |a: &str, b: &str| format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\ngbps = 1\n");
    let nodes: String = switches
        .into_iter()
        .map(|name| node(name, "switch"))
        .collect();
    let hosts: String = (0..4)
        .map(|host| node(&format!("h{host}"), "host"))
        .collect();
    let nics: String = (0..4)
        .flat_map(|host| RACK_LEAVES[host / 2].map(|leaf| nic(host, leaf)))
        .collect();
    let uplinks: String = switches[..4]
        .iter()
        .flat_map(|leaf| ["spine0", "spine1"].map(|spine| cable(leaf, spine)))
        .collect();
    let text = format!("kind = \"graph\"\n{nodes}{hosts}{nics}{uplinks}");
    Cluster::on(Network::of(&text), Mode::Manual)
}

/// The spine sends to the leaf of the NIC that a flow is for, and has no choice to make for it.
#[test]
fn moved_flow_stays_on_its_rail() {
    let mut cluster = declared();
    for (from, to, port) in [("h0", "h2", 1000), ("h1", "h3", 1001)] {
        let end = |name, port| SocketAddrV4::new(nic_address(cluster.network.node(name), 1), port);
        let flow = FlowKey {
            protocol: Protocol::Tcp,
            source: end(from, port),
            destination: end(to, 5000),
        };
        cluster.network.start_as(flow, 0);
    }
    cluster.run_for(SETTLE_TIME);
    let generation = cluster.plan();
    cluster.apply(generation);
    cluster.run_until_ended(1);
    let pins = &cluster.core.state().in_force().pins;
    let pinned: Vec<_> = pins
        .iter()
        .map(|pin| cluster.network.fabric.name(pin.at))
        .collect();
    assert_eq!(pinned, ["leaf1"], "{:?}", cluster.last_outcome());
}

/// A train result from one host to another, over the same NIC of both.
fn measured(cluster: &Cluster, [from, to, rail]: [usize; 3], mbps: u64) -> Reading {
    let end = |host: usize, port| {
        let node = cluster.network.node(&format!("h{host}"));
        SocketAddrV4::new(nic_address(node, rail), port)
    };
    let rate = Rate::from_bits_per_s(mbps * 1_000_000);
    Reading::Bandwidth(BandwidthReading {
        flow: FlowKey {
            protocol: Protocol::Udp,
            source: end(from, 7400),
            destination: end(to, PROBE_PORT),
        },
        bandwidth: Bandwidth::Known {
            rate,
            least: rate,
            most: rate,
            trains: 20,
        },
        routers: None,
    })
}

/// The usual rate of one rail is slow on the other.
#[test]
fn slow_pair_names_its_rail() {
    let mut cluster = rails([4, 5]);
    for from in 0..4 {
        let others = (0..4).filter(|to| *to != from);
        let ways = others.flat_map(|to| [[from, to, 0], [from, to, 1]]);
        let readings = ways.map(|way| {
            let mbps = match way {
                [0, 3, 0] => 500,
                [_, _, 0] => 1000,
                _ => 500,
            };
            measured(&cluster, way, mbps)
        });
        let readings = readings.collect();
        say(&mut cluster, &format!("h{from}"), readings);
    }
    let slow = (Class::SlowPair, "h0 and h3".to_owned());
    assert_eq!(only(&mut cluster), slow);
    let said = causes(&mut cluster)[0].evidence.join("; ");
    assert!(said.contains("on rail 0 have 1.0 Gb/s"), "{said}");
}
