//! Every link is crossed, by few flows.

use std::collections::{BTreeMap, BTreeSet};

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
    let different: BTreeSet<_> = cover.flows.iter().collect();
    assert_eq!(different.len(), cover.flows.len(), "a flow is listed twice");
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
    for (leaves, spines, hosts) in [
        (2, 4, 8),
        (4, 2, 2),
        (8, 8, 16),
        (3, 1, 3),
        (3, 4, 4),
        (3, 16, 2),
    ] {
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

/// Two hosts have to do it all: each flow by a port of its own, more than are tried for one.
#[test]
fn many_flows_between_the_same_hosts_are_different_ones() {
    for (spines, times) in [(2, 300), (32, 4)] {
        let fabric = Scene::leaf_spine(2, spines, 1, 100, 100).fabric;
        assert!(covered(&fabric, times) < 1.7, "{spines}");
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

/// Every pair of hosts by so many ports, and what each flow crosses.
fn candidates(fabric: &Fabric, ports: u16) -> Vec<Candidate> {
    let (mut atlas, ecmp) = (Atlas::new(fabric), Ecmp::default());
    let hosts: Vec<_> = fabric.endpoints().collect();
    let pairs = hosts
        .iter()
        .flat_map(|from| hosts.iter().map(move |to| [*from, *to]));
    let pairs = pairs.filter(|[from, to]| from != to).enumerate();
    let mut way = |ends: [NodeId; 2], [source_port, destination_port]: [u16; 2]| {
        let label = ecmp.label(Fields {
            source: ends[0].index() as u32,
            destination: ends[1].index() as u32,
            source_port,
            destination_port,
            protocol: 17,
        });
        let hops = atlas.hashed(ends, &ecmp, label).unwrap();
        hops.into_iter().map(|hop| atlas.index(hop)).collect()
    };
    let mut candidates = Vec::new();
    for (pair, [from, to]) in pairs {
        for port in 7400..7400 + ports {
            let there = way([from, to], [port, PROBE_PORT]);
            let back = way([to, from], [PROBE_PORT, port]);
            let ways = [there, back];
            candidates.push(Candidate { pair, ways });
        }
    }
    candidates
}

/// By hop: which of these ways cross it.
fn crossed_by(chosen: &[&Candidate]) -> BTreeMap<usize, Vec<usize>> {
    let mut crossed_by: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (nth, way) in chosen.iter().flat_map(|it| &it.ways).enumerate() {
        way.iter()
            .for_each(|hop| crossed_by.entry(*hop).or_default().push(nth));
    }
    crossed_by
}

#[test]
fn few_flows_of_many_cross_every_link_and_tell_as_many_apart() {
    for (leaves, spines, hosts, most_percent) in [(2, 4, 4, 35), (4, 2, 2, 35), (2, 8, 2, 80)] {
        let fabric = Scene::leaf_spine(leaves, spines, hosts, 100, 100).fabric;
        let candidates = candidates(&fabric, 4);
        let chosen = choose(&candidates, 2 * fabric.links().len(), 4);
        let percent = 100 * chosen.len() / candidates.len();
        assert!(
            percent <= most_percent,
            "{leaves} {spines} {hosts}: {percent} %"
        );
        let chosen: Vec<_> = chosen.iter().map(|&place| &candidates[place]).collect();
        let [all, few] =
            [candidates.iter().collect(), chosen].map(|them: Vec<_>| crossed_by(&them));
        for (hop, ways) in &all {
            assert!(few[hop].len() >= ways.len().min(4), "{hop}");
        }
        let classes = |crossed: BTreeMap<usize, Vec<usize>>| {
            let mut classes: BTreeMap<_, Vec<_>> = BTreeMap::new();
            for (hop, by) in crossed {
                classes.entry(by).or_default().push(hop);
            }
            classes.into_values().collect::<BTreeSet<_>>()
        };
        assert_eq!(classes(all), classes(few));
    }
}

#[test]
fn of_every_two_hosts_one_flow_is_left() {
    let way = |hop: usize| Candidate {
        pair: hop / 2,
        ways: [vec![0, 1, 0], vec![2]],
    };
    let candidates: Vec<_> = (0..6).map(way).collect();
    assert_eq!(choose(&candidates, 3, 1), [0, 2, 4]);
    assert_eq!(choose(&candidates, 3, 5), [0, 1, 2, 3, 4]);
    assert_eq!(choose(&[], 3, 5), Vec::<usize>::new());
    // The second tells the first two hops apart.
    let apart = [vec![0, 1], vec![0]].map(|there| Candidate {
        pair: 0,
        ways: [there, vec![2]],
    });
    assert_eq!(choose(&apart, 3, 1), [0, 1]);
}
