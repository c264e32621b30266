//! Equal paths with unequal capacity.

use std::collections::BTreeMap;

use reweave_common::flow::FlowKey;
use reweave_common::hardware::NicReport;
use reweave_common::operator::{Refused, Request, Response};
use reweave_common::plan::Generation;
use reweave_common::sample::{HostReading, Reading};
use reweave_common::units::Rate;

use super::cluster::Cluster;
use super::diagnosis::say;
use super::network::Network;
use super::scene::SETTLE_TIME;
use crate::{Outcome, Policy};

const MICE_FLOWS: u16 = 12;

/// Two spines; the second one's link to the second leaf has half the rate of all others.
fn uneven() -> Network {
    let node = |name: &str, role: &str| format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\n");
    let link = |a: &str, b: &str, gbps: f64| {
        format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\ngbps = {gbps}\n")
    };
    let mut text = "kind = \"graph\"\n".to_owned();
    for host in 0..8 {
        text += &node(&format!("h{host}"), "host");
    }
    for switch in ["leaf0", "leaf1", "spine0", "spine1"] {
        text += &node(switch, "switch");
    }
    for host in 0..8 {
        text += &link(&format!("h{host}"), &format!("leaf{}", host / 4), 0.2);
    }
    for (leaf, spine, gbps) in [(0, 0, 0.1), (0, 1, 0.1), (1, 0, 0.1), (1, 1, 0.05)] {
        text += &link(&format!("leaf{leaf}"), &format!("spine{spine}"), gbps);
    }
    Network::of(&text)
}

/// A flow with less than half of a link counts as small.
fn cluster(network: Network) -> Cluster {
    let planner = reweave_repair::Policy {
        elephant_share: 0.5,
        ..Default::default()
    };
    let policy = Policy {
        planner,
        ..Policy::default()
    };
    Cluster::with(network, policy)
}

/// Flows from the first leaf to the second, half of them past either spine.
fn mice(cluster: &mut Cluster) -> Vec<FlowKey> {
    let start = |it: u16| {
        let [from, to] = [it % 4, 4 + it / 4 % 4].map(|host| format!("h{host}"));
        cluster
            .network
            .start(&from, &to, 1000 + it, usize::from(it % 2))
    };
    (0..MICE_FLOWS).map(start).collect()
}

fn planned(cluster: &mut Cluster, by_worth: bool) -> Response {
    cluster.ask(Request::Weigh { by_worth })
}

fn carry(cluster: &mut Cluster, plan: Generation) {
    let ended = cluster.core.state().ended();
    cluster.apply(plan);
    cluster.run_until_ended(ended + 1);
}

fn carry_out(cluster: &mut Cluster, by_worth: bool) {
    let Response::Plan {
        plan: Some(plan), ..
    } = planned(cluster, by_worth)
    else {
        panic!("no plan")
    };
    carry(cluster, plan.generation);
    assert_eq!(*cluster.last_outcome(), Outcome::Committed);
    cluster.assert_one_generation();
}

/// The number of flows by uplink.
fn spread(cluster: &Cluster, flows: &[FlowKey]) -> BTreeMap<String, usize> {
    let mut spread = BTreeMap::new();
    for flow in flows {
        *spread.entry(cluster.network.uplink(flow)).or_default() += 1;
    }
    spread
}

fn slowest_mbps(cluster: &Cluster) -> f64 {
    let rates = cluster.network.rates().into_values();
    rates.fold(f64::INFINITY, f64::min) / 1e6
}

fn weights(cluster: &mut Cluster, switch: &str) -> Vec<Vec<u32>> {
    let routes = &cluster.network.switch(switch).routes;
    let weights = routes
        .iter()
        .map(|route| route.hops.iter().map(|hop| hop.weight));
    weights.map(Iterator::collect).collect()
}

#[test]
fn mice_spread_by_weights_until_removed() {
    let mut cluster = cluster(uneven());
    let flows = mice(&mut cluster);
    cluster.run_for(SETTLE_TIME);
    let before = slowest_mbps(&cluster);
    carry_out(&mut cluster, true);
    let spread_now = spread(&cluster, &flows);
    assert_eq!(
        (spread_now["leaf0-spine0"], spread_now["leaf0-spine1"]),
        (8, 4)
    );
    let gain = slowest_mbps(&cluster) / before;
    assert!((1.49..1.51).contains(&gain), "{gain}");
    // The slow link belongs to the second leaf, and is behind the first leaf's second uplink.
    for leaf in ["leaf0", "leaf1"] {
        assert_eq!(weights(&mut cluster, leaf), vec![vec![2, 1]; 4]);
    }
    assert_eq!(
        planned(&mut cluster, true),
        Response::Refused(Refused::NothingToChange)
    );
    carry_out(&mut cluster, false);
    let spread_now = spread(&cluster, &flows);
    assert_eq!(
        (spread_now["leaf0-spine0"], spread_now["leaf0-spine1"]),
        (6, 6)
    );
}

/// The rate that both ends report counts, not the one in the fabric's file.
#[test]
fn degraded_bundle_gets_lower_weight() {
    let mut cluster = cluster(Network::new(4, 4));
    cluster.run_for(SETTLE_TIME);
    let even = planned(&mut cluster, true);
    assert_eq!(even, Response::Refused(Refused::NothingToChange));
    let leaf = cluster.network.node("leaf1");
    let nic = NicReport {
        interface: cluster.network.interface(leaf, "spine2"),
        speed: Some(Rate::from_bits_per_s(25_000_000)),
        ..NicReport::default()
    };
    say(
        &mut cluster,
        "leaf1",
        vec![Reading::Host(HostReading::Nic(Box::new(nic)))],
    );
    carry_out(&mut cluster, true);
    for leaf in ["leaf0", "leaf1"] {
        assert_eq!(weights(&mut cluster, leaf), vec![vec![4, 4, 1, 4]; 4]);
    }
}

#[test]
fn drains_and_weights_persist_together() {
    let mut cluster = cluster(uneven());
    let flows = mice(&mut cluster);
    cluster.run_for(SETTLE_TIME);
    carry_out(&mut cluster, true);
    let drain = |cluster: &mut Cluster, links: &[&str]| {
        let links = links.iter().map(|link| (*link).to_owned()).collect();
        let Response::Plan {
            plan: Some(plan), ..
        } = cluster.ask(Request::Drain { links })
        else {
            panic!("no plan")
        };
        carry(cluster, plan.generation);
    };
    drain(&mut cluster, &["leaf0-spine1"]);
    assert_eq!(spread(&cluster, &flows)["leaf0-spine0"], 12);
    drain(&mut cluster, &[]);
    let last = cluster.last_outcome().clone();
    assert_eq!(last, Outcome::Committed);
}
