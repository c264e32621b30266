//! Every link is crossed, by few flows.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::fabric::Fabric;
use reweave_common::probing::PROBE_PORT;
use reweave_common::snapshot::Hop;

use super::*;
use crate::paths::Atlas;
use crate::paths::ecmp::{Ecmp, Fields};
use crate::tests::scene::Scene;

/// The coupon collector's figures.
#[test]
fn port_counts_match_coupon_collector() {
    let ports = [4, 8, 16, 32].map(|ways| ports_for(ways, 0.99));
    assert_eq!(ports, [21, 51, 115, 255]);
    assert_eq!([0, 1, 2].map(|ways| ports_for(ways, 0.99)), [0, 1, 8]);
}

/// Returns the number of crossings of each hop, computed independently.
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
fn every_link_is_probed_both_ways() {
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
fn flows_between_two_hosts_are_distinct() {
    for (spines, times) in [(2, 300), (32, 4)] {
        let fabric = Scene::leaf_spine(2, spines, 1, 100, 100).fabric;
        assert!(covered(&fabric, times) < 1.7, "{spines}");
    }
}

/// Three tiers of switches with this many ports.
fn fat_tree(ports: usize) -> Fabric {
    let (mut nodes, mut links, half) = (String::new(), String::new(), ports / 2);
    let mut node = |name: &str, role: &str| {
        nodes += &format!("{{ name = \"{name}\", role = \"{role}\" }}, ");
    };
    let mut link = |a: &str, b: &str| {
        links += &format!("{{ a = \"{a}\", b = \"{b}\", gbps = 1 }}, ");
    };
    for core in 0..half * half {
        node(&format!("core{core}"), "switch");
    }
    for (pod, one) in (0..ports * half).map(|it| (it / half, it % half)) {
        node(&format!("agg{pod}-{one}"), "switch");
        node(&format!("edge{pod}-{one}"), "switch");
        for other in 0..half {
            let (host, edge) = (format!("h{pod}-{one}-{other}"), format!("edge{pod}-{one}"));
            node(&host, "host");
            link(&host, &edge);
            link(&edge, &format!("agg{pod}-{other}"));
            link(
                &format!("agg{pod}-{one}"),
                &format!("core{}", half * one + other),
            );
        }
    }
    let text = format!("kind = \"graph\"\nnode = [{nodes}]\nlink = [{links}]");
    Fabric::parse("fat-tree.toml", &text).unwrap()
}

#[test]
fn three_tiers_need_few_extra_flows() {
    for (ports, times, most) in [(4, 1, 1.7), (8, 4, 1.3), (12, 4, 1.3)] {
        let more = covered(&fat_tree(ports), times);
        assert!(more < most, "{ports} {times}: {more} times the least");
    }
}

/// Pods of leaves, each of whose hosts has a link to every leaf of its pod, as where each card has a rail of its own.
fn rails(pods: usize, rails: usize, hosts: usize, spines: usize) -> Fabric {
    let node = |name: &str, role: &str| format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\n");
    let link = |a: &str, b: &str| format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\ngbps = 1\n");
    let spines: Vec<_> = (0..spines).map(|it| format!("spine{it}")).collect();
    let mut text = "kind = \"graph\"\n".to_owned();
    text.extend(spines.iter().map(|spine| node(spine, "switch")));
    for pod in 0..pods {
        let leaves: Vec<_> = (0..rails).map(|it| format!("leaf{pod}-{it}")).collect();
        for leaf in &leaves {
            text += &node(leaf, "switch");
            text.extend(spines.iter().map(|spine| link(leaf, spine)));
        }
        for host in (0..hosts).map(|it| format!("h{pod}-{it}")) {
            text += &node(&host, "host");
            text.extend(leaves.iter().map(|leaf| link(&host, leaf)));
        }
    }
    Fabric::parse("rails.toml", &text).unwrap()
}

#[test]
fn all_links_of_hosts_are_probed() {
    for (shape, times, most) in [([3, 2, 4, 2], 1, 1.7), ([2, 8, 4, 4], 4, 1.3)] {
        let [pods, rails_each, hosts, spines] = shape;
        let more = covered(&rails(pods, rails_each, hosts, spines), times);
        assert!(more < most, "{shape:?} {times}: {more} times the least");
    }
}

fn graph(roles: &[(&str, &str)], links: &[[&str; 2]]) -> Fabric {
    let mut text = "kind = \"graph\"\n".to_owned();
    for (name, role) in roles {
        text += &format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\n");
    }
    for [a, b] in links {
        text += &format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\ngbps = 1\n");
    }
    Fabric::parse("graph.toml", &text).unwrap()
}

/// The likeliest other end is reached over a cable of its own.
#[test]
fn unlikely_ends_are_tried_for_links() {
    let [host, relay, switch] = ["host", "relay", "switch"];
    let roles = [
        ("h0", relay),
        ("h1", host),
        ("h2", relay),
        ("s0", switch),
        ("s1", switch),
    ];
    let links = [
        ["h0", "s0"],
        ["h1", "s0"],
        ["h2", "s1"],
        ["s0", "s1"],
        ["h2", "h0"],
    ];
    covered(&graph(&roles, &links), 1);
}

/// Each flow crosses much of a layer if paths lead along it; the lower bound accounts for that.
#[test]
fn least_probe_count_is_tight() {
    let switches = ["s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7"];
    let hosts = ["h0", "h1", "h2", "h3", "h4", "h5", "h6", "h7"];
    let of = |names: [&'static str; 8], role| names.map(|name| (name, role));
    let roles = [of(switches, "switch"), of(hosts, "host")].concat();
    let ring = (0..8).map(|it| [switches[it], switches[(it + 1) % 8]]);
    let below = (0..8).map(|it| [hosts[it], switches[it]]);
    let links: Vec<_> = ring.chain(below).collect();
    assert!(
        covered(&graph(&roles, &links), 4) >= 1.0,
        "a ring of switches"
    );
    let chain: Vec<_> = switches.windows(2).map(|it| [it[0], it[1]]).collect();
    let relays = graph(&of(switches, "relay"), &chain);
    let cover = cover(&relays, &Ecmp::default(), 4);
    assert_eq!(cover.least, 4, "each from one end to the other and back");
}

/// Hosts that are wired to each other, in a circle by steps of these sizes.
fn wired(hosts: usize, strides: &[usize]) -> Fabric {
    let text = format!("kind = \"direct\"\nhosts = {hosts}\nlink_gbps = 1\nstrides = {strides:?}");
    Fabric::parse("direct.toml", &text).unwrap()
}

/// Twice the number of hops between the furthest hosts.
#[test]
fn relay_flow_crosses_longest_path() {
    for (hosts, strides, times, most) in [
        (3, &[1][..], 1, 2.1),
        (12, &[1], 1, 1.6),
        (12, &[1], 4, 1.2),
        (36, &[1], 4, 1.2),
        (200, &[1], 1, 2.1),
        (12, &[1, 5], 4, 1.6),
        (64, &[1, 8], 4, 1.5),
        (128, &[1, 5, 25], 4, 1.5),
    ] {
        let more = covered(&wired(hosts, strides), times);
        assert!(
            more < most,
            "{hosts} {strides:?} {times}: {more} times the least"
        );
    }
    let names: Vec<_> = (0..9).map(|nth| format!("h{nth}")).collect();
    let roles: Vec<_> = names.iter().map(|name| (&**name, "relay")).collect();
    // The middle of it is named first.
    let chain = [
        [4, 5],
        [3, 4],
        [5, 6],
        [2, 3],
        [6, 7],
        [1, 2],
        [7, 8],
        [0, 1],
    ];
    let links = chain.map(|ends| ends.map(|nth| &*names[nth]));
    assert_eq!(covered(&graph(&roles, &links), 4), 1.0, "a chain");
}

#[test]
fn single_host_fabric_is_uncovered() {
    let text = "kind = \"leaf-spine\"\nleaves = 1\nspines = 1\nhosts_per_leaf = 1\n\
                host_gbps = 1\nuplink_gbps = 1";
    let fabric = Fabric::parse("fabric.toml", text).unwrap();
    let cover = cover(&fabric, &Ecmp::default(), 1);
    assert!(cover.flows.is_empty());
    assert_eq!(cover.uncovered.len(), 4);
}

/// Every pair of hosts by this many ports, and what each flow crosses.
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

/// Returns the paths that cross each hop.
fn crossed_by(chosen: &[&Candidate]) -> BTreeMap<usize, Vec<usize>> {
    let mut crossed_by: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (nth, way) in chosen.iter().flat_map(|it| &it.ways).enumerate() {
        way.iter()
            .for_each(|hop| crossed_by.entry(*hop).or_default().push(nth));
    }
    crossed_by
}

#[test]
fn few_flows_keep_coverage_and_resolution() {
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
fn each_host_pair_keeps_one_flow() {
    let way = |hop: usize| Candidate {
        pair: hop / 2,
        ways: [vec![0, 1, 0], vec![2]],
    };
    let candidates: Vec<_> = (0..6).map(way).collect();
    assert_eq!(choose(&candidates, 3, 1), [0, 2, 4]);
    assert_eq!(choose(&candidates, 3, 5), [0, 1, 2, 3, 4]);
    assert_eq!(choose(&[], 3, 5), Vec::<usize>::new());
    // The second distinguishes the first two hops.
    let apart = [vec![0, 1], vec![0]].map(|there| Candidate {
        pair: 0,
        ways: [there, vec![2]],
    });
    assert_eq!(choose(&apart, 3, 1), [0, 1]);
}
