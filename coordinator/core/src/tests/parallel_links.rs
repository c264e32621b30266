//! Leaves and spines with two cables between each pair: a fault of one is not attributed to the other.

use std::time::Duration;

use reweave_common::cause::Class;
use reweave_common::flow::FlowKey;
use reweave_common::health::Signal;
use reweave_common::operator::Mode;
use reweave_common::snapshot::Hop;

use super::cluster::Cluster;
use super::diagnosis::{causes, health, only, probe_for, say};
use super::network::Network;
use super::scene::{SETTLE_TIME, status};
use crate::{Outcome, Policy};

const SECOND_CABLE: &str = "leaf0-spine1.1";

/// Two leaves with four hosts each, and two spines.
fn cluster(policy: Policy) -> Cluster {
    let node =
        |name: String, role: &str| format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\n");
    let hosts = (0..8).map(|host| node(format!("h{host}"), "host"));
    let switches = ["leaf0", "leaf1", "spine0", "spine1"];
    let switches = switches.map(|name| node(name.to_owned(), "switch"));
    let link = |a: String, b: String, gbps: f64, count: u32| {
        format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\ngbps = {gbps}\ncount = {count}\n")
    };
    let own = (0..8).map(|host| link(format!("h{host}"), format!("leaf{}", host / 4), 0.2, 1));
    let uplinks = (0..4).map(|it| {
        link(
            format!("leaf{}", it / 2),
            format!("spine{}", it % 2),
            0.1,
            2,
        )
    });
    let text: String = hosts.chain(switches).chain(own).chain(uplinks).collect();
    let network = Network::of(&format!("kind = \"graph\"\n{text}"));
    let mut cluster = Cluster::with(network, policy);
    cluster.run_for(SETTLE_TIME);
    cluster
}

fn by_hand() -> Cluster {
    cluster(Policy {
        mode: Mode::Manual,
        ..Policy::default()
    })
}

/// The hop from the first leaf over the second cable to the second spine.
fn second(cluster: &Cluster) -> Hop {
    let fabric = &cluster.network.fabric;
    Hop {
        from: cluster.network.node("leaf0"),
        link: fabric.find_link(SECOND_CABLE).expect("it is there"),
    }
}

/// The name of its end at this node.
fn port(cluster: &Cluster, node: &str) -> String {
    let links = cluster.network.fabric.links_of(cluster.network.node(node));
    let second = second(cluster).link;
    let place = links.iter().position(|link| *link == second);
    format!("swp{}", place.expect("it ends there"))
}

/// Here the spine hashes like the leaf: everything that goes up the second cable goes down the second one, too.
const AMBIGUOUS_CABLE: &str = "ambiguous: leaf0-spine1.1 from leaf0 or leaf1-spine1.1 from spine1";

#[test]
fn second_cable_loss_spares_first_cable() {
    let mut cluster = by_hand();
    let lossy = second(&cluster);
    cluster.network.lossy.insert(lossy);
    probe_for(&mut cluster, Duration::from_secs(20));
    let report = (Class::LossyLink, AMBIGUOUS_CABLE.to_owned());
    assert_eq!(only(&mut cluster), report);
}

#[test]
fn second_cable_latency_spares_first_cable() {
    let mut cluster = by_hand();
    probe_for(&mut cluster, Duration::from_secs(150));
    assert_eq!(causes(&mut cluster), []);
    let slow = second(&cluster);
    cluster.network.slow_us.insert(slow, 1400);
    probe_for(&mut cluster, Duration::from_secs(40));
    let report = (Class::Latency, AMBIGUOUS_CABLE.to_owned());
    assert_eq!(only(&mut cluster), report);
}

/// The flows that leave the first leaf by this link.
fn flows_over(cluster: &mut Cluster, link: &str) -> FlowKey {
    let mut ports = 1000..1100;
    let flow = ports.find_map(|port| {
        let flow = cluster.network.start("h1", "h5", port, 1);
        let is_there = cluster.network.uplink(&flow) == link;
        is_there.then_some(flow).or_else(|| {
            cluster.network.end(flow);
            None
        })
    });
    flow.expect("one of them is hashed there")
}

#[test]
fn policy_drains_cable_with_counted_errors() {
    let mut cluster = cluster(Policy {
        mode: Mode::Auto,
        drain_failing_after: Duration::from_secs(10),
        ..Policy::default()
    });
    let (bad, good) = (
        flows_over(&mut cluster, SECOND_CABLE),
        flows_over(&mut cluster, "leaf0-spine1"),
    );
    let spine = port(&cluster, "spine1");
    for _ in 0..60 {
        say(
            &mut cluster,
            "spine1",
            vec![health(&spine, Signal::FrameErrors, 100)],
        );
        cluster.run_for(Duration::from_secs(1));
    }
    let text = (Class::BadOptic, format!("{SECOND_CABLE} from leaf0"));
    assert_eq!(only(&mut cluster), text);
    let ended: Vec<_> = cluster
        .core
        .state()
        .history()
        .map(|it| it.outcome.clone())
        .collect();
    assert_eq!(ended, [Outcome::Committed]);
    let links = status(&mut cluster).links;
    let drained = links.iter().filter(|it| it.drained);
    let drained: Vec<_> = drained.map(|it| it.hop.link.clone()).collect();
    assert!(
        !drained.is_empty() && drained.iter().all(|link| link == SECOND_CABLE),
        "{drained:?}"
    );
    assert_ne!(cluster.network.uplink(&bad), SECOND_CABLE);
    assert_eq!(cluster.network.uplink(&good), "leaf0-spine1");
}
