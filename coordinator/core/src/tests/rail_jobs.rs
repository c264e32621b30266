//! Jobs on hosts with a NIC on each of two rails, and one for storage.

use std::net::SocketAddrV4;

use reweave_common::bandwidth::{Bandwidth, BandwidthReading};
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::hardware::NicReport;
use reweave_common::operator::{Lanes, Mode, Request, Response};
use reweave_common::probing::PROBE_PORT;
use reweave_common::sample::{HostReading, Reading};
use reweave_common::units::Rate;

use super::cluster::Cluster;
use super::diagnosis::say;
use super::network::{Network, nic_address};
use super::registered::{gate, texts};
use super::scene::SETTLE_TIME;

const HOSTS: [&str; 4] = ["h0", "h1", "h2", "h3"];
/// Leaf, and what else the file says of a NIC there. Interfaces are in this order.
const NICS: [[&str; 2]; 3] = [
    ["leaf0", "rail = 0"],
    ["leaf1", "rail = 1"],
    ["leaf2", "use = \"storage\""],
];

fn cluster() -> Cluster {
    let node = |name: &str, role: &str| format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\n");
    let mut text = "kind = \"graph\"\n".to_owned();
    text.extend(NICS.map(|[leaf, _]| node(leaf, "switch")));
    text.extend(HOSTS.map(|host| node(host, "host")));
    for host in HOSTS {
        text.extend(NICS.map(|[leaf, more]| {
            format!("[[nic]]\nhost = \"{host}\"\nto = \"{leaf}\"\ngbps = 1\n{more}\n")
        }));
    }
    let mut cluster = Cluster::on(Network::of(&text), Mode::Manual);
    cluster.run_for(SETTLE_TIME);
    cluster
}

/// A train result from one host to another, over NICs of the same number.
fn measured(cluster: &Cluster, [from, to]: [&str; 2], nic: usize, mbps: u64) -> Reading {
    let end = |host, port| {
        let node = cluster.network.node(host);
        SocketAddrV4::new(nic_address(node, nic), port)
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

/// Rail 1 is slow between h0 and h1, and storage between all others.
#[test]
fn pairs_of_rails_order_jobs() {
    let mut cluster = cluster();
    for from in HOSTS {
        let others = HOSTS.into_iter().filter(|&to| to != from);
        let ways = others.flat_map(|to| [0, 1, 2].map(|nic| (to, nic)));
        let readings = ways.map(|(to, nic)| {
            let is_first = ["h0", "h1"].contains(&from) && ["h0", "h1"].contains(&to);
            let mbps = match (nic, is_first) {
                (1, true) => 100,
                (2, false) => 10,
                _ => 1000,
            };
            measured(&cluster, [from, to], nic, mbps)
        });
        let readings = readings.collect();
        say(&mut cluster, from, readings);
    }
    let report = gate(&mut cluster, &HOSTS);
    let place = |host: &str| report.order.iter().position(|it| it == host).unwrap();
    assert_eq!(place("h0").abs_diff(place("h1")), 2, "{report:?}");
    let mbps = |mbps: u64| Rate::from_bits_per_s(mbps * 1_000_000);
    assert_eq!(report.ring_bits_per_s, Some([mbps(200), mbps(2000)]));
}

/// Devices in the order of the NICs of a host.
fn tell_devices(cluster: &mut Cluster, host: &str, devices: [&str; 3]) {
    let nics = devices.into_iter().enumerate().map(|(nth, device)| {
        Reading::Host(HostReading::Nic(Box::new(NicReport {
            interface: format!("eth{nth}"),
            rdma: Some(device.to_owned()),
            ..NicReport::default()
        })))
    });
    say(cluster, host, nics.collect());
}

fn lanes(cluster: &mut Cluster) -> Lanes {
    match cluster.ask(Request::Lanes {
        hosts: texts(&HOSTS),
    }) {
        Response::Lanes(lanes) => lanes,
        other => panic!("{other:?}"),
    }
}

#[test]
fn devices_are_listed_by_rail() {
    let mut cluster = cluster();
    for host in HOSTS {
        tell_devices(&mut cluster, host, ["mlx5_9", "mlx5_2", "mlx5_1"]);
    }
    let devices = |lanes: &Lanes| {
        let devices = lanes.lanes.iter().map(|lane| lane.device.clone());
        devices.collect::<Vec<_>>()
    };
    let report = lanes(&mut cluster);
    assert_eq!(devices(&report), ["mlx5_9", "mlx5_2"]);
    assert_eq!(report.left_out, [""; 0]);
    tell_devices(&mut cluster, "h2", ["mlx5_9", "mlx5_4", "mlx5_1"]);
    let report = lanes(&mut cluster);
    assert_eq!(devices(&report), ["mlx5_9"]);
    let expected = "rail 1: h0 calls its device mlx5_2, h2 mlx5_4: NCCL_IB_HCA cannot name both";
    assert_eq!(report.left_out, [expected]);
    cluster.network.fail("h3", "leaf0");
    cluster.run_for(SETTLE_TIME);
    let report = lanes(&mut cluster);
    assert_eq!(
        report.left_out[0],
        "rail 0: h3-leaf0 of h3 is down, or drained"
    );
}
