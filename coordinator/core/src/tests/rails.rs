//! Hosts with two NICs, each at another switch.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

use reweave_common::bandwidth::{Bandwidth, BandwidthReading};
use reweave_common::cause::Class;
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::ids::NodeId;
use reweave_common::operator::{Mode, Plan, Refused, Request, Response, Via};
use reweave_common::probing::PROBE_PORT;
use reweave_common::sample::Reading;
use reweave_common::units::Rate;

use super::cluster::Cluster;
use super::diagnosis::{causes, only, say};
use super::network::{Network, nic_address};
use super::scene::SETTLE_TIME;
use crate::Outcome;

const RACK_LEAVES: [[&str; 2]; 2] = [["leaf0", "leaf1"], ["leaf2", "leaf3"]];
/// The same, for hosts with a NIC at each leaf of their rack.
const TWO_RAILS: [&[&str]; 2] = [&["leaf0", "leaf1"], &["leaf2", "leaf3"]];

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
    drain_of(cluster, "leaf0-spine0")
}

fn drain_of(cluster: &mut Cluster, link: &str) -> Response {
    let links = vec![link.to_owned()];
    cluster.ask(Request::Drain { links })
}

/// The plan of a response that has one.
fn planned(response: Response) -> Box<Plan> {
    match response {
        Response::Plan {
            plan: Some(plan), ..
        } => plan,
        other => panic!("no plan: {other:?}"),
    }
}

fn reason(response: Response) -> String {
    match response {
        Response::Refused(refused) => refused.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn undeclared_hosts_are_refused_with_remedy() {
    let mut cluster = spined(|host| nic_address(host, 0));
    let refused = drain(&mut cluster);
    let host = cluster.network.node("h0");
    let [routed, other] = [0, 1].map(|nic| nic_address(host, nic));
    let reason = format!(
        "routes lead to h0 by its address {routed} alone, and flows to {other} would stay where they \
         are: declare its NICs as [[nic]]"
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

/// Four hosts with a NIC at each leaf of their rack, which the fabric's file declares, and what else it has.
fn declared_at(racks: [&[&str]; 2], more: &str) -> Cluster {
    Cluster::on(Network::of(&declared_text(racks, more)), Mode::Manual)
}

fn declared_text(racks: [&[&str]; 2], more: &str) -> String {
    let switches = ["leaf0", "leaf1", "leaf2", "leaf3", "spine0", "spine1"];
    let nodes: String = switches
        .into_iter()
        .map(|name| node(name, "switch"))
        .collect();
    let hosts: String = (0..4)
        .map(|host| node(&format!("h{host}"), "host"))
        .collect();
    let nics: String = (0..4)
        .flat_map(|host| racks[host / 2].iter().map(move |leaf| nic(host, leaf, "")))
        .collect();
    let uplinks: String = switches[..4]
        .iter()
        .flat_map(|leaf| ["spine0", "spine1"].map(|spine| cable(leaf, spine)))
        .collect();
    format!("kind = \"graph\"\n{nodes}{hosts}{nics}{uplinks}{more}")
}

fn node(name: &str, role: &str) -> String {
    format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\n")
}

fn nic(host: usize, leaf: &str, keys: &str) -> String {
    format!("[[nic]]\nhost = \"h{host}\"\nto = \"{leaf}\"\ngbps = 1\n{keys}")
}

fn cable(a: &str, b: &str) -> String {
    format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\ngbps = 1\n")
}

/// With two NICs each.
fn declared() -> Cluster {
    declared_at(TWO_RAILS, "")
}

/// A flow between the NICs of one rail, which hashes to the first spine.
fn start_on_rail(cluster: &mut Cluster, [from, to]: [&str; 2], rail: usize, port: u16) -> FlowKey {
    let end = |name, port| SocketAddrV4::new(nic_address(cluster.network.node(name), rail), port);
    let flow = FlowKey {
        protocol: Protocol::Tcp,
        source: end(from, port),
        destination: end(to, 5000),
    };
    cluster.network.start_as(flow, 0)
}

/// The addresses to which a switch has routes of ours, and the interfaces of their next hops.
fn routes_of(cluster: &Cluster, name: &str) -> BTreeMap<Ipv4Addr, Vec<String>> {
    let switch = &cluster.network.switches[&cluster.network.node(name)];
    let routes = switch.routes.iter().map(|route| {
        let hops = route.hops.iter().map(|hop| hop.interface.clone());
        (route.destination, hops.collect())
    });
    routes.collect()
}

/// Applies the plan of a response, until it has ended.
fn carry_out(cluster: &mut Cluster, response: Response) {
    let ended = cluster.core.state().ended();
    let generation = planned(response).generation;
    cluster.apply(generation);
    cluster.run_until_ended(ended + 1);
    assert_eq!(*cluster.last_outcome(), Outcome::Committed);
}

#[test]
fn drain_moves_all_rails() {
    let mut cluster = declared();
    let [there, beside] = [(0, 1000), (1, 1001)]
        .map(|(rail, port)| start_on_rail(&mut cluster, ["h0", "h2"], rail, port));
    let back = start_on_rail(&mut cluster, ["h3", "h1"], 0, 1002);
    cluster.run_for(SETTLE_TIME);
    let response = drain(&mut cluster);
    let leaves = ["leaf1", "leaf2", "leaf3"].map(|leaf| format!("behind {leaf}"));
    let tables = planned(response.clone()).tables;
    assert_eq!(
        tables["leaf0"].keys().collect::<Vec<_>>(),
        leaves.each_ref()
    );
    assert_eq!(tables["leaf3"].keys().collect::<Vec<_>>(), ["behind leaf0"]);
    carry_out(&mut cluster, response);
    let uplinks = [there, beside, back].map(|flow| cluster.network.uplink(&flow));
    // The spine above the link is avoided as well; the other rail stays.
    assert_eq!(uplinks, ["leaf0-spine1", "leaf1-spine0", "leaf2-spine1"]);
    let address = |(host, rail): (&str, usize)| nic_address(cluster.network.node(host), rail);
    let up = |leaf: &str| {
        let leaf = cluster.network.node(leaf);
        vec![cluster.network.interface(leaf, "spine1")]
    };
    let all = ["h0", "h1", "h2", "h3"].map(|host| [(host, 0), (host, 1)]);
    let all = all.concat().into_iter();
    let elsewhere = all.filter(|nic| !["h0", "h1"].contains(&nic.0) || nic.1 == 1);
    let expected = elsewhere.map(|nic| (address(nic), up("leaf0")));
    assert_eq!(
        routes_of(&cluster, "leaf0"),
        expected.collect::<BTreeMap<_, _>>()
    );
    let behind_leaf0 = ["h0", "h1"].map(|host| (address((host, 0)), up("leaf2")));
    assert_eq!(routes_of(&cluster, "leaf2"), BTreeMap::from(behind_leaf0));
    let response = cluster.ask(Request::Drain { links: vec![] });
    carry_out(&mut cluster, response);
    assert_eq!(cluster.network.uplink(&there), "leaf0-spine0");
    let held = cluster.network.switches.values();
    assert_eq!(held.map(|it| it.routes.len()).sum::<usize>(), 0);
}

/// Storage NICs of each rack at a switch of their own.
#[test]
fn storage_uplink_may_be_drained() {
    let stores = [("store0", [0, 1]), ("store1", [2, 3])];
    let more = stores.into_iter().map(|(store, hosts)| {
        let nics = hosts.map(|host| nic(host, store, "use = \"storage\"\n"));
        let uplinks = ["spine0", "spine1"].map(|spine| cable(store, spine));
        [vec![node(store, "switch")], nics.to_vec(), uplinks.to_vec()].concat()
    });
    let more: String = more.flatten().collect();
    let mut cluster = declared_at(TWO_RAILS, &more);
    cluster.run_for(SETTLE_TIME);
    let response = drain_of(&mut cluster, "store0-spine0");
    carry_out(&mut cluster, response);
    let at_store1 = routes_of(&cluster, "store1").into_keys();
    let expected = ["h0", "h1"].map(|host| nic_address(cluster.network.node(host), 2));
    assert_eq!(at_store1.collect::<Vec<_>>(), expected);
}

/// Coordinators of the version before take a switch for no destination.
#[test]
fn version_1_1_drains_by_host() {
    let at_1_1 = |racks: [&[&str]; 2]| {
        let mut cluster = declared_at(racks, "");
        cluster.founded = 1;
        cluster.restart();
        cluster.reconnect();
        cluster.run_for(SETTLE_TIME);
        cluster
    };
    let mut cluster = at_1_1([&["leaf0"], &["leaf2"]]);
    let response = drain(&mut cluster);
    let tables = planned(response.clone()).tables;
    assert_eq!(tables["leaf0"].keys().collect::<Vec<_>>(), ["h2", "h3"]);
    carry_out(&mut cluster, response);
    let mut cluster = at_1_1(TWO_RAILS);
    let refused = reason(drain(&mut cluster));
    let remedy = "each NIC is led to from cluster version 1.2 on";
    assert!(refused.contains(remedy), "{refused}");
}

#[test]
fn version_stays_while_leaves_are_destinations() {
    let mut cluster = declared();
    cluster.run_for(SETTLE_TIME);
    let response = drain(&mut cluster);
    carry_out(&mut cluster, response);
    let lower = |cluster: &mut Cluster| cluster.ask(Request::ClusterVersion { minor: Some(1) });
    let why = reason(lower(&mut cluster));
    assert!(why.contains("routes in force lead to leaves"), "{why}");
    let response = cluster.ask(Request::Drain { links: vec![] });
    carry_out(&mut cluster, response);
    let lowered = lower(&mut cluster);
    assert!(
        matches!(lowered, Response::ClusterVersion { minor: 1, .. }),
        "{lowered:?}"
    );
}

/// The first spine has links of twice the rate to two leaves.
#[test]
fn weights_lead_to_leaves() {
    let mut text = declared_text(TWO_RAILS, "");
    for leaf in ["leaf0", "leaf2"] {
        let uplink = cable(leaf, "spine0");
        let wider = uplink.replace("gbps = 1", "gbps = 2");
        text = text.replace(&uplink, &wider);
    }
    let mut cluster = Cluster::on(Network::of(&text), Mode::Manual);
    cluster.run_for(SETTLE_TIME);
    let response = cluster.ask(Request::Weigh { by_worth: true });
    let tables = planned(response.clone()).tables;
    let weights = |via: &Vec<Via>| via.iter().map(|it| it.weight).collect::<Vec<_>>();
    let at_leaf0 = tables["leaf0"].iter();
    let at_leaf0: Vec<_> = at_leaf0
        .map(|(to, via)| (to.as_str(), weights(via)))
        .collect();
    assert_eq!(at_leaf0, [("behind leaf2", vec![2, 1])]);
    carry_out(&mut cluster, response);
    let to = ["h2", "h3"].map(|host| nic_address(cluster.network.node(host), 0));
    let routes = routes_of(&cluster, "leaf0").into_keys();
    assert_eq!(routes.collect::<Vec<_>>(), to);
}

/// By which of its NICs a host sends is its own choice, and none is cut off.
#[test]
fn nic_is_not_drained() {
    let mut cluster = declared();
    cluster.run_for(SETTLE_TIME);
    for name in ["h0-leaf0", "h0"] {
        let refused = reason(drain_of(&mut cluster, name));
        let expected = format!("no route leads around {name}");
        assert!(refused.contains(&expected), "{refused}");
    }
    let cut_off = "without these links leaf0 has no equally short path to h0";
    assert_eq!(reason(drain_of(&mut cluster, "leaf0")), cut_off);
}

#[test]
fn nic_without_address_is_named() {
    let mut cluster = declared();
    let host = cluster.network.node("h3");
    cluster.disconnect(host);
    cluster.run_for(SETTLE_TIME);
    let refused = reason(drain(&mut cluster));
    let expected = "no address of NIC h3-leaf2 of h3 is known: start its agent or write it in the \
                    fabric file";
    assert!(refused.contains(expected), "{refused}");
}

/// The spine sends to the leaf of the NIC that a flow is for, and has no choice to make for it.
#[test]
fn moved_flow_stays_on_its_rail() {
    let mut cluster = declared();
    for (ends, port) in [(["h0", "h2"], 1000), (["h1", "h3"], 1001)] {
        start_on_rail(&mut cluster, ends, 1, port);
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
