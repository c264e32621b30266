//! NICs that the fabric's file declares: what is counted by use, probed by rail, and shown.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use reweave_common::fabric::{Fabric, NicUse};
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::ids::NodeId;
use reweave_common::operator::{
    Matrix, Mode, NicStatus, PairTraffic, PairTraffics, Request, Response,
};
use reweave_common::pci::{NearGpu, NicPlace, PciAddress, PciPath};
use reweave_common::sample::{FlowReading, HostReading, Interface, Reading};
use reweave_common::time_span::TimeSpan;
use reweave_common::units::{Bytes, Rate};

use super::cluster::Cluster;
use super::diagnosis::{hop, say};
use super::network::{Network, nic_address};
use super::scene::{SETTLE_TIME, status};
use crate::Policy;
use crate::model::world::least_elephant;

const SWITCHES: [&str; 7] = [
    "leaf0", "leaf1", "leaf2", "leaf3", "spine0", "spine1", "store0",
];
/// Leaves of the two rails, by rack.
const RACK_LEAVES: [[&str; 2]; 2] = [["leaf0", "leaf1"], ["leaf2", "leaf3"]];
const HOSTS: usize = 4;
/// The time after which each host has a list with all its peers.
const LISTING_TIME: Duration = Duration::from_secs(12);

fn host(number: usize) -> NodeId {
    NodeId::from_index(SWITCHES.len() + number)
}

/// Four hosts with a NIC on each of two rails, and one for storage. In the second rack, the file has rail 1 first.
fn text() -> String {
    let node = |name: &str, role: &str| format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\n");
    let nic = |number: usize, leaf: &str, keys: &str| {
        format!("[[nic]]\nhost = \"h{number}\"\nto = \"{leaf}\"\n{keys}\n")
    };
    let nics = |number: usize| {
        let rack = number / 2;
        let rails = if rack == 0 { [0, 1] } else { [1, 0] };
        let training = rails.map(|rail| {
            let keys = format!("gbps = 0.2\nrail = {rail}");
            nic(number, RACK_LEAVES[rack][rail], &keys)
        });
        let address = nic_address(host(number), 2);
        let keys =
            format!("gbps = 0.2\nuse = \"storage\"\ninterface = \"eth2\"\naddress = \"{address}\"");
        training.concat() + &nic(number, "store0", &keys)
    };
    let uplinks = SWITCHES[..4].iter().flat_map(|leaf| {
        ["spine0", "spine1"]
            .map(|spine| format!("[[link]]\na = \"{leaf}\"\nb = \"{spine}\"\ngbps = 0.1\n"))
    });
    let switches = SWITCHES.map(|name| node(name, "switch")).concat();
    let hosts = (0..HOSTS).map(|number| node(&format!("h{number}"), "host"));
    let hosts: String = hosts.collect();
    let nics: String = (0..HOSTS).map(nics).collect();
    let uplinks: String = uplinks.collect();
    format!("kind = \"graph\"\n{switches}{hosts}{nics}{uplinks}")
}

fn cluster() -> Cluster {
    Cluster::on(Network::of(&text()), Mode::Manual)
}

/// A flow from one host to another, between these of their NICs by their place in the file.
fn flow([from, to]: [(usize, usize); 2], port: u16) -> FlowKey {
    let end = |(number, nic), port| SocketAddrV4::new(nic_address(host(number), nic), port);
    FlowKey {
        protocol: Protocol::Tcp,
        source: end(from, port),
        destination: end(to, 5000),
    }
}

/// Two flows of rail 0 that meet on the way to the first spine, and an even one of rail 1.
fn start_training(cluster: &mut Cluster) {
    for (ends, port, spine) in [
        ([(0, 0), (2, 1)], 1000, 0),
        ([(1, 0), (3, 1)], 1001, 0),
        ([(0, 1), (2, 0)], 1002, 1),
    ] {
        cluster.network.start_as(flow(ends, port), spine);
    }
}

fn start_storage(cluster: &mut Cluster) {
    for (ends, port) in [
        ([(0, 2), (3, 2)], 2000),
        ([(1, 2), (2, 2)], 2001),
        ([(3, 2), (0, 2)], 2002),
    ] {
        cluster.network.start_as(flow(ends, port), 0);
    }
}

/// All answers that count flows.
fn answers(has_flood: bool, has_storage_agent: bool) -> [Response; 4] {
    let mut cluster = cluster();
    if !has_storage_agent {
        let store = cluster.network.node("store0");
        cluster.disconnect(store);
    }
    start_training(&mut cluster);
    if has_flood {
        start_storage(&mut cluster);
    }
    cluster.run_for(SETTLE_TIME);
    let traffic = Request::Traffic {
        rail: None,
        most: 100,
    };
    let requests = [Request::Jobs, Request::Imbalance, traffic, Request::Plan];
    requests.map(|request| cluster.ask(request))
}

/// Jobs, imbalance, traffic, and the plan with the jobs that it touches.
#[test]
fn storage_flows_are_never_counted() {
    for has_storage_agent in [true, false] {
        let [quiet, flooded] = [false, true].map(|flood| answers(flood, has_storage_agent));
        for (quiet, flooded) in quiet.iter().zip(&flooded) {
            assert_eq!(quiet, flooded, "{has_storage_agent}");
        }
        let Response::Jobs(jobs) = &quiet[0] else {
            panic!("{:?}", quiet[0])
        };
        assert_eq!(jobs.len(), 2, "{jobs:?}");
        let is_planned = matches!(&quiet[3], Response::Plan { plan: Some(_), .. });
        assert!(is_planned, "{:?}", quiet[3]);
    }
}

#[test]
fn slow_storage_nics_make_no_elephants() {
    let least = |text: &str| {
        let fabric = Fabric::parse("fabric.toml", text).unwrap();
        least_elephant(&fabric, &Policy::default())
    };
    let slow = text().replace("gbps = 0.2\nuse", "gbps = 0.001\nuse");
    assert_ne!(slow, text());
    assert_eq!(least(&slow), least(&text()));
}

/// The address of each NIC for training, with its rail.
fn rails() -> BTreeMap<Ipv4Addr, u16> {
    let of_host = |number: usize| {
        let rails = if number < 2 { [0, 1] } else { [1, 0] };
        [0, 1].map(|nic| (nic_address(host(number), nic), rails[nic]))
    };
    (0..HOSTS).flat_map(of_host).collect()
}

#[test]
fn probes_pair_equal_rails() {
    let mut cluster = cluster();
    cluster.run_for(LISTING_TIME);
    let rails = rails();
    for number in 0..HOSTS {
        let list = &cluster.network.probes[&host(number)];
        let roster: Vec<_> = list.roster.iter().collect();
        assert_eq!(roster.len(), rails.len(), "{roster:?}");
        assert!(roster.iter().all(|address| rails.contains_key(address)));
        let ends = list
            .flows
            .iter()
            .map(|flow| [flow.source, flow.destination]);
        let probed: Vec<_> = ends.map(|ends| ends.map(|end| rails[end.ip()])).collect();
        assert!(probed.iter().all(|[from, to]| from == to), "{probed:?}");
        assert!([0, 1].iter().all(|rail| probed.contains(&[*rail, *rail])));
    }
}

fn claim(cluster: &mut Cluster, host: &str, name: &str, addresses: Vec<Ipv4Addr>) {
    let interface = Interface {
        name: name.to_owned(),
        addresses,
        gateways: vec![],
    };
    say(cluster, host, vec![Reading::Interface(interface)]);
}

/// A flow from the address is only its own host's to report.
#[test]
fn foreign_nic_claim_names_both() {
    let mut cluster = cluster();
    start_training(&mut cluster);
    cluster.run_for(SETTLE_TIME);
    let address = nic_address(host(1), 2);
    claim(&mut cluster, "h3", "eth7", vec![address]);
    let foreign = FlowReading {
        flow: flow([(1, 2), (2, 0)], 1),
        bytes: Bytes::ZERO,
        rate: Some(Rate::from_bits_per_s(100_000_000)),
        rtt: Some(TimeSpan::from_millis(1)),
        retransmits: Some(0),
    };
    say(&mut cluster, "h3", vec![Reading::Flow(foreign)]);
    // The owner repeats its own claim.
    claim(&mut cluster, "h1", "eth2", vec![address]);
    let named =
        format!("h3 claims {address}, NIC eth2 of h1; its readings of that address are ignored");
    let shown = status(&mut cluster);
    assert!(shown.warnings.contains(&named), "{:?}", shown.warnings);
    let agent = shown.agents.iter().find(|agent| agent.node == "h3");
    assert_eq!(agent.map(|agent| agent.discarded_readings), Some(1));
    claim(&mut cluster, "h3", "eth7", vec![]);
    let warnings = status(&mut cluster).warnings;
    assert!(!warnings.contains(&named), "{warnings:?}");
}

fn nics(cluster: &mut Cluster, from_nic: u32, most: u32) -> Vec<NicStatus> {
    match cluster.ask(Request::Nics { from_nic, most }) {
        Response::Nics(nics) => nics,
        other => panic!("{other:?}"),
    }
}

#[test]
fn nics_show_use_and_place() {
    let mut cluster = cluster();
    let pci = PciAddress::new(0, 0x18, 0);
    let gpu = NearGpu {
        pci: PciAddress::new(0, 0x1b, 0),
        index: 3,
        path: PciPath::Pix,
        hops: 1,
    };
    let place = NicPlace {
        interface: "eth2".to_owned(),
        pci,
        numa: Some(1),
        gpus: vec![gpu],
    };
    let place = Reading::Host(HostReading::NicPlace(Box::new(place)));
    say(&mut cluster, "h0", vec![place]);
    cluster.network.start_as(flow([(0, 2), (1, 2)], 2000), 0);
    cluster.network.fail("h0", "leaf0");
    cluster.run_for(SETTLE_TIME);
    let all = nics(&mut cluster, 0, 100);
    assert_eq!(all.len(), 3 * HOSTS);
    assert_eq!((all[0].rail, all[0].up), (0, Some(false)), "{:?}", all[0]);
    let storage = &all[2];
    let busy = storage.sent_bits_per_s.map(|rate| rate.mbps() > 100.0);
    assert_eq!(busy, Some(true), "{storage:?}");
    let expected = NicStatus {
        host: "h0".to_owned(),
        interface: Some("eth2".to_owned()),
        rail: 0,
        plane: None,
        purpose: NicUse::Storage,
        link: "h0-store0".to_owned(),
        address: Some(nic_address(host(0), 2)),
        pci: Some(pci),
        numa: Some(1),
        gpu: None,
        gpus: vec![gpu],
        up: Some(true),
        capacity_bits_per_s: Rate::from_bits_per_s(200_000_000),
        sent_bits_per_s: storage.sent_bits_per_s,
        received_bits_per_s: Some(Rate::from_bits_per_s(0)),
    };
    assert_eq!(storage, &expected);
    let page = nics(&mut cluster, 2, 1);
    assert_eq!(page.first(), Some(storage));
    assert_eq!(page.len(), 1);
    let after = nics(&mut cluster, 12, 1);
    assert!(after.is_empty(), "{after:?}");
}

fn traffic(cluster: &mut Cluster, rail: Option<u16>, most: u32) -> PairTraffics {
    match cluster.ask(Request::Traffic { rail, most }) {
        Response::Traffic(traffic) => traffic,
        other => panic!("{other:?}"),
    }
}

#[test]
fn traffic_is_listed_by_rail() {
    let mut cluster = cluster();
    start_training(&mut cluster);
    start_storage(&mut cluster);
    cluster.run_for(SETTLE_TIME);
    let ends = |it: &PairTraffic| (it.from.clone(), it.to.clone(), it.rail, it.flows);
    let pair = |from: &str, to: &str, rail| (from.to_owned(), to.to_owned(), Some(rail), 1);
    let all = traffic(&mut cluster, None, 100);
    assert_eq!((all.pairs.len(), all.all_pairs), (3, 3), "{all:?}");
    assert_eq!(ends(&all.pairs[0]), pair("h0", "h2", 1), "the fastest");
    let rates = all.pairs.iter().map(|it| it.rate_bits_per_s);
    assert!(rates.is_sorted_by(|one, other| one >= other), "{all:?}");
    let most = traffic(&mut cluster, None, 1);
    assert_eq!((most.pairs.len(), most.all_pairs), (1, 3));
    let mut of_rail: Vec<_> = traffic(&mut cluster, Some(0), 100).pairs;
    of_rail.sort_by(|one, other| one.from.cmp(&other.from));
    let of_rail: Vec<_> = of_rail.iter().map(ends).collect();
    assert_eq!(of_rail, [pair("h0", "h2", 0), pair("h1", "h3", 0)]);
    assert_eq!(traffic(&mut cluster, Some(2), 100), PairTraffics::default());
}

fn matrix(cluster: &mut Cluster, request: Request) -> Matrix {
    match cluster.ask(request) {
        Response::Matrix(matrix) => matrix,
        other => panic!("{other:?}"),
    }
}

/// A lossy cable of one rail.
#[test]
fn rail_matrix_leaves_others_out() {
    let mut cluster = cluster();
    cluster.run_for(LISTING_TIME);
    let lossy = hop(&cluster, "h0", "leaf1");
    cluster.network.lossy.insert(lossy);
    for number in 0..HOSTS {
        let readings = cluster.network.probed(host(number));
        say(&mut cluster, &format!("h{number}"), readings);
    }
    cluster.run_for(SETTLE_TIME);
    let lost = |matrix: &Matrix| {
        let mut cells = matrix.cells.iter();
        cells.any(|cell| cell.lost_share.is_some_and(|share| share > 0.0))
    };
    let of_rail = |rail| Request::RailMatrix { rail, most: 100 };
    let rails = [0, 1].map(|rail| matrix(&mut cluster, of_rail(rail)));
    assert_eq!(rails.each_ref().map(lost), [false, true]);
    let pairs = HOSTS * (HOSTS - 1);
    assert_eq!(rails.each_ref().map(|it| it.cells.len()), [pairs; 2]);
    let all = matrix(&mut cluster, Request::Matrix { most: 100 });
    assert!(lost(&all));
    assert_eq!((all.hosts.len(), all.cells.len()), (HOSTS, pairs));
    assert!(matrix(&mut cluster, of_rail(2)).cells.is_empty());
}
