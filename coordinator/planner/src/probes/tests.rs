//! Every link is crossed, by few flows.

use std::collections::BTreeMap;

use reweave_common::fabric::Fabric;
use reweave_common::probing::PROBE_PORT;
use reweave_common::snapshot::Hop;

use super::*;
use crate::paths::Atlas;
use crate::sim::ecmp::{Ecmp, Fields};
use crate::tests::scene::Scene;

/// The coupon collector's figures.
#[test]
fn so_many_ports_see_all_ways() {
    let ports = [4, 8, 16, 32].map(|ways| ports_for(ways, 0.99));
    assert_eq!(ports, [21, 51, 115, 255]);
    assert_eq!([0, 1, 2].map(|ways| ports_for(ways, 0.99)), [0, 1, 8]);
}

/// How often each hop is crossed, walked anew.
fn crossings(fabric: &Fabric, ecmp: &Ecmp, cover: &Cover) -> BTreeMap<Hop, u32> {
    let (mut atlas, mut times) = (Atlas::new(fabric), BTreeMap::new());
    for flow in &cover.flows {
        let there = ([flow.from, flow.to], [flow.source_port, PROBE_PORT]);
        let back = ([flow.to, flow.from], [PROBE_PORT, flow.source_port]);
        for (ends, [source_port, destination_port]) in [there, back] {
            let label = ecmp.label(Fields {
                source: ends[0].index() as u32,
                destination: ends[1].index() as u32,
                source_port,
                destination_port,
                protocol: 17,
            });
            for hop in atlas.hashed(ends, ecmp, label).unwrap() {
                *times.entry(hop).or_default() += 1;
            }
        }
    }
    times
}

fn covered(fabric: &Fabric, wanted: u32) -> f64 {
    let ecmp = Ecmp::default();
    let cover = cover(fabric, &ecmp, wanted);
    assert_eq!(cover.uncovered, []);
    let times = crossings(fabric, &ecmp, &cover);
    for (link, ends) in fabric.links() {
        for from in ends.ports().map(|port| port.node) {
            let crossed = times.get(&Hop { from, link }).copied().unwrap_or(0);
            assert!(
                crossed >= wanted,
                "{} from {}",
                fabric.link_name(link),
                fabric.name(from)
            );
        }
    }
    cover.flows.len() as f64 / cover.least as f64
}

#[test]
fn every_link_of_a_fabric_is_crossed_both_ways() {
    for (leaves, spines, hosts) in [(2, 4, 8), (4, 2, 2), (8, 8, 16), (3, 1, 3)] {
        let fabric = Scene::leaf_spine(leaves, spines, hosts, 100, 100).fabric;
        for times in [1, 4] {
            let more = covered(&fabric, times);
            assert!(
                more < 2.5,
                "{leaves} {spines} {hosts} {times}: {more} times the least"
            );
        }
    }
}

#[test]
fn three_tiers_are_crossed_too() {
    let mut text = "kind = \"graph\"\nnode = [".to_owned();
    let mut links = String::new();
    for core in 0..4 {
        text += &format!("{{ name = \"core{core}\", role = \"switch\" }}, ");
    }
    for pod in 0..4 {
        for half in 0..2 {
            text += &format!(
                "{{ name = \"agg{pod}{half}\", role = \"switch\" }}, {{ name = \"edge{pod}{half}\", role = \"switch\" }}, "
            );
            for other in 0..2 {
                text += &format!("{{ name = \"h{pod}{half}{other}\", role = \"host\" }}, ");
                links += &format!(
                    "{{ a = \"h{pod}{half}{other}\", b = \"edge{pod}{half}\", gbps = 1 }}, "
                );
                links +=
                    &format!("{{ a = \"edge{pod}{half}\", b = \"agg{pod}{other}\", gbps = 1 }}, ");
                links += &format!(
                    "{{ a = \"agg{pod}{half}\", b = \"core{}\", gbps = 1 }}, ",
                    2 * half + other
                );
            }
        }
    }
    let text = format!("{text}]\nlink = [{links}]");
    let fabric = Fabric::parse("fat-tree.toml", &text).unwrap();
    assert!(covered(&fabric, 1) < 3.0);
}

#[test]
fn a_host_alone_cannot_be_probed_and_that_is_said() {
    let text = "kind = \"leaf-spine\"\nleaves = 1\nspines = 1\nhosts_per_leaf = 1\n\
                host_gbps = 1\nuplink_gbps = 1";
    let fabric = Fabric::parse("fabric.toml", text).unwrap();
    let cover = cover(&fabric, &Ecmp::default(), 1);
    assert!(cover.flows.is_empty());
    assert_eq!(cover.uncovered.len(), 4);
}
