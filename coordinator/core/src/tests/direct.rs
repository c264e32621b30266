//! Hosts that are wired to each other and forward.

use std::net::Ipv4Addr;
use std::time::Duration;

use reweave_common::cause::{Class, Subject};
use reweave_common::hardware::{NicReport, Pcie, PcieLink};
use reweave_common::operator::Mode;
use reweave_common::sample::{HostReading, Reading};

use super::cluster::Cluster;
use super::diagnosis::{causes, hop, only, probe_for, say};
use super::network::{Network, host_address};
use super::scene::SETTLE_TIME;

/// The time to trace all probes and to get enough of them.
const LEARNING_TIME: Duration = Duration::from_secs(20);

fn ring() -> Cluster {
    let text = "kind = \"direct\"\nhosts = 8\nlink_gbps = 0.2\nstrides = [1]";
    let mut cluster = Cluster::on(Network::of(text), Mode::Manual);
    cluster.run_for(SETTLE_TIME);
    cluster
}

/// Only a neighbour has a route to the address on their link.
#[test]
fn relay_hosts_probed_by_reachable_address() {
    let cluster = ring();
    for (node, list) in &cluster.network.probes {
        let all = cluster.network.fabric.endpoints();
        let others: Vec<_> = all.filter(|it| it != node).map(host_address).collect();
        let probed = list.flows.iter().map(|flow| *flow.destination.ip());
        let mut probed: Vec<Ipv4Addr> = probed.collect();
        probed.sort();
        probed.dedup();
        assert_eq!(probed, others);
        let mut from = list.flows.iter().map(|flow| *flow.source.ip());
        assert!(from.all(|it| it == host_address(*node)), "{list:?}");
    }
    assert_eq!(cluster.network.probes.len(), 8);
}

#[test]
fn lossy_cable_direction_is_named_alone() {
    for ends in [["h0", "h1"], ["h1", "h0"], ["h0", "h7"], ["h4", "h3"]] {
        let mut cluster = ring();
        probe_for(&mut cluster, LEARNING_TIME);
        assert_eq!(causes(&mut cluster), []);
        let lossy = hop(&cluster, ends[0], ends[1]);
        cluster.network.lossy.insert(lossy);
        probe_for(&mut cluster, LEARNING_TIME);
        let found = causes(&mut cluster);
        let [one] = &found[..] else {
            panic!("one cause: {found:#?}")
        };
        let [from, to] = ends.map(str::to_owned);
        let link = cluster.network.fabric.link_name(lossy.link);
        let subject = Subject::Hop { from, to, link };
        assert_eq!((one.class, &one.subject), (Class::LossyLink, &subject));
    }
}

#[test]
fn relay_host_losing_transit_is_named() {
    let mut cluster = ring();
    for other in ["h2", "h4"] {
        let both = [hop(&cluster, "h3", other), hop(&cluster, other, "h3")];
        cluster.network.lossy.extend(both);
    }
    probe_for(&mut cluster, LEARNING_TIME);
    assert_eq!(only(&mut cluster), (Class::FaultyHost, "h3".to_owned()));
}

#[test]
fn relay_pcie_downgrade_is_named() {
    let mut cluster = ring();
    let link = |lanes| PcieLink {
        mt_per_s: 16_000,
        lanes,
    };
    let nic = NicReport {
        interface: "swp0".to_owned(),
        pcie: Some(Pcie {
            now: link(8),
            most: link(16),
        }),
        ..NicReport::default()
    };
    let nic = HostReading::Nic(Box::new(nic));
    say(&mut cluster, "h6", vec![Reading::Host(nic)]);
    assert_eq!(only(&mut cluster), (Class::PcieDowngrade, "h6".to_owned()));
}
