//! Times that are known, and that none is faster than the bound.

use reweave_common::fabric::Fabric;
use reweave_common::iteration::Operation::{self, *};
use reweave_repair::paths::ecmp::Ecmp;

use super::*;
use crate::engine::network::{Costs, Network};

const MAX_SIMULATION_WORK: u64 = 1 << 34;

fn fabric(text: &str) -> Fabric {
    Fabric::parse("fabric.toml", text).unwrap()
}

fn circulant(hosts: usize, strides: &str) -> Fabric {
    fabric(&format!(
        "kind = \"direct\"\nhosts = {hosts}\nlink_gbps = 100\nstrides = [{strides}]"
    ))
}

fn leaf_spine(leaves: usize, hosts_per_leaf: usize, spines: usize) -> Fabric {
    fabric(&format!(
        "kind = \"leaf-spine\"\nleaves = {leaves}\nspines = {spines}\n\
         hosts_per_leaf = {hosts_per_leaf}\nhost_gbps = 100\nuplink_gbps = 100"
    ))
}

fn ideal(hosts: usize) -> Fabric {
    fabric(&format!(
        "kind = \"ideal\"\nhosts = {hosts}\nnic_gbps = 100"
    ))
}

fn played(
    fabric: &Fabric,
    operation: Operation,
    bytes: f64,
    algorithm: Algorithm,
) -> Result<Played, CollectiveError> {
    let collective = Collective {
        fabric,
        members: None,
        operation,
        bytes,
    };
    let network = Network::of(fabric, Costs::default());
    let ecmp = Ecmp::default();
    time(
        &collective,
        algorithm,
        &network,
        &ecmp,
        MAX_SIMULATION_WORK,
        &mut |_| true,
    )
}

fn time_ms(fabric: &Fabric, operation: Operation, bytes: f64, algorithm: Algorithm) -> f64 {
    let played = played(fabric, operation, bytes, algorithm);
    played.unwrap().time.millis()
}

fn optimum_ms(fabric: &Fabric, operation: Operation, bytes: f64) -> f64 {
    let collective = Collective {
        fabric,
        members: None,
        operation,
        bytes,
    };
    bound::optimum_us(&collective, 1.0, MAX_SIMULATION_WORK).unwrap() / 1e3
}

fn close(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= b.abs() * tolerance
}

#[test]
fn ring_time_matches_formula() {
    for (leaves, expected_ms) in [(2, 15.75), (8, 15.9375), (32, 15.984375)] {
        let fabric = leaf_spine(leaves, 32, 32);
        assert_eq!(
            time_ms(&fabric, AllReduce, 1e8, Algorithm::Ring),
            expected_ms
        );
    }
}

#[test]
fn ring_is_optimal_on_switch() {
    let fabric = ideal(24);
    for operation in [AllReduce, ReduceScatter, AllGather] {
        let ring = time_ms(&fabric, operation, 1e8, Algorithm::Ring);
        let best = optimum_ms(&fabric, operation, 1e8);
        assert!(close(ring, best, 1e-9), "{operation:?}: {ring} {best}");
    }
}

#[test]
fn coprime_circulants_gather_at_full_degree() {
    for (hosts, strides, degree) in [
        (12, "1, 5", 4.0),
        (16, "1, 5", 4.0),
        (16, "1, 3, 5, 7", 8.0),
        (32, "1, 7", 4.0),
    ] {
        let fabric = circulant(hosts, strides);
        let n = hosts as f64;
        let expected = (n - 1.0) / n * 8e8 / (degree * 1e11) * 1e3;
        let best = optimum_ms(&fabric, AllGather, 1e8);
        assert!(close(best, expected, 1e-9), "{hosts}: {best} {expected}");
        let best = optimum_ms(&fabric, AllReduce, 1e8);
        assert!(close(best, 2.0 * expected, 1e-9), "{hosts}: {best}");
        let rings = time_ms(&fabric, AllReduce, 1e8, Algorithm::MultiRing);
        assert!(close(rings, 2.0 * expected, 1e-9), "{hosts}: {rings}");
    }
}

#[test]
fn failed_link_costs_third() {
    let whole = circulant(12, "1, 5");
    let links = |link: &reweave_common::fabric::Link| [link.a.node.index(), link.b.node.index()];
    let left: Vec<_> = whole.links().skip(1).map(|(_, link)| links(link)).collect();
    let text = format!("kind = \"direct\"\nhosts = 12\nlink_gbps = 100\nlinks = {left:?}");
    let [before, after] = [&whole, &fabric(&text)].map(|it| optimum_ms(it, AllGather, 1e8));
    assert!(close(after, before * 4.0 / 3.0, 1e-9), "{before} {after}");
}

#[test]
fn packed_trees_approach_bound() {
    let lopsided = r#"
        kind = "graph"
        node = [{ name = "a", role = "relay" }, { name = "b", role = "relay" },
                { name = "c", role = "relay" }, { name = "s", role = "switch" },
                { name = "d", role = "host" }, { name = "e", role = "host" }]
        link = [{ a = "a", b = "b", gbps = 100 }, { a = "b", b = "c", gbps = 50 },
                { a = "c", b = "s", gbps = 100 }, { a = "a", b = "s", gbps = 25 },
                { a = "s", b = "d", gbps = 100 }, { a = "s", b = "e", gbps = 40 }]
    "#;
    let fabrics = [
        circulant(12, "1, 5"),
        ideal(6),
        leaf_spine(2, 3, 2),
        fabric(lopsided),
    ];
    for (nth, fabric) in fabrics.iter().enumerate() {
        for operation in [AllReduce, AllGather, ReduceScatter, Broadcast] {
            let found = time_ms(fabric, operation, 1e8, Algorithm::Optimal);
            let best = optimum_ms(fabric, operation, 1e8);
            assert!(
                found >= best * (1.0 - 1e-9),
                "{nth} {operation:?}: {found} {best}"
            );
            assert!(found <= best * 1.05, "{nth} {operation:?}: {found} {best}");
        }
    }
}

#[test]
fn no_algorithm_beats_bound() {
    let fabrics = [
        ideal(7),
        ideal(8),
        circulant(9, "1, 2"),
        leaf_spine(2, 4, 1),
    ];
    for fabric in &fabrics {
        for operation in [AllReduce, AllGather, ReduceScatter, Broadcast, AllToAll] {
            let best = optimum_ms(fabric, operation, 1e7);
            for algorithm in algorithms_of(operation) {
                let found = time_ms(fabric, operation, 1e7, algorithm);
                assert!(
                    found >= best * (1.0 - 1e-9),
                    "{operation:?} {algorithm}: {found} {best}"
                );
            }
        }
    }
}

#[test]
fn recursive_halving_matches_ring() {
    let fabric = ideal(16);
    for operation in [AllReduce, AllGather, ReduceScatter] {
        let best = optimum_ms(&fabric, operation, 1e8);
        let found = time_ms(&fabric, operation, 1e8, Algorithm::Recursive);
        assert!(close(found, best, 1e-9), "{operation:?}: {found} {best}");
    }
}

#[test]
fn all_to_all_bounds_match_distances() {
    // The rate of a pair, in links: the traffic over the bound at this rate.
    for (hosts, strides, expected) in [(12, "1, 5", 0.2), (16, "1, 5", 0.125), (16, "1, 7", 0.1176)]
    {
        let fabric = circulant(hosts, strides);
        let share_bits = 8e8 / hosts as f64;
        let rate = share_bits / (optimum_ms(&fabric, AllToAll, 1e8) * 1e-3) / 1e11;
        assert!(close(rate, expected, 1e-3), "{hosts} {strides}: {rate}");
    }
}

#[test]
fn latency_and_start_count_per_step() {
    let fabric = fabric(
        "kind = \"leaf-spine\"\nleaves = 1\nspines = 1\nhosts_per_leaf = 8\n\
                         host_gbps = 100\nuplink_gbps = 100\nlatency_us = 1",
    );
    let costs = Costs {
        start_up: crate::engine::SimTime::from_micros(3.0).unwrap(),
        ..Costs::default()
    };
    let network = Network::of(&fabric, costs);
    let collective = Collective {
        fabric: &fabric,
        members: None,
        operation: AllReduce,
        bytes: 8e5,
    };
    let played = time(
        &collective,
        Algorithm::Ring,
        &network,
        &Ecmp::default(),
        MAX_SIMULATION_WORK,
        &mut |_| true,
    )
    .unwrap();
    assert_eq!(played.time.micros(), 14.0 * (8.0 + 3.0 + 2.0));
}

#[test]
fn impossible_collectives_are_refused() {
    let lonely = ideal(1);
    let fabric = ideal(9);
    let error = |fabric, operation, algorithm| {
        let refused = played(fabric, operation, 1e6, algorithm);
        refused.unwrap_err().to_string()
    };
    let said = error(&lonely, AllReduce, Algorithm::Ring);
    assert_eq!(
        said,
        "a collective takes two hosts or more, the fabric has 1"
    );
    let said = error(&fabric, AllToAll, Algorithm::Ring);
    assert_eq!(said, "ring is no way to do this; use direct, shifted");
    let said = error(&fabric, AllReduce, Algorithm::Hierarchical { group: 4 });
    assert_eq!(said, "9 hosts do not fall into groups of 4");
    let crowd = ideal(9000);
    for algorithm in [Algorithm::Direct, Algorithm::Shifted] {
        let said = error(&crowd, AllToAll, algorithm);
        assert_eq!(
            said,
            "one simulation takes no more than 67108864 flows and computations"
        );
    }
}

/// A graph of hosts that pass on what they have, of switches, and of links by their names and Gb/s.
fn graph(hosts: &[String], switches: &[&str], links: &[(String, String, u32)]) -> Fabric {
    let node = |name: &str, role: &str| format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\n");
    let hosts = hosts.iter().map(|name| node(name, "relay"));
    let switches = switches.iter().map(|name| node(name, "switch"));
    let links = links
        .iter()
        .map(|(a, b, gbps)| format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\ngbps = {gbps}\n"));
    let parts: Vec<_> = hosts.chain(switches).chain(links).collect();
    fabric(&format!("kind = \"graph\"\n{}", parts.concat()))
}

/// Gigabytes that all get of all in a second.
fn gathered_gbytes_per_s(fabric: &Fabric) -> f64 {
    1e9 / optimum_ms(fabric, AllGather, 1e9) / 1e6
}

/// Two boxes of eight A100: 300 GB/s of each to the switch inside, 25 to those between boxes. All but
/// one of sixteen send to the last over 325.
#[test]
fn two_a100_boxes_match_published_rate() {
    let name = |nth: usize| format!("g{nth}");
    let link = |nth: usize| {
        let inside = format!("box{}", nth / 8);
        [
            (name(nth), inside, 2400),
            (name(nth), "between".to_owned(), 200),
        ]
    };
    let hosts: Vec<_> = (0..16).map(name).collect();
    let links: Vec<_> = (0..16).flat_map(link).collect();
    let found = gathered_gbytes_per_s(&graph(&hosts, &["box0", "box1", "between"], &links));
    assert!((found - 346.67).abs() < 0.01, "{found} GB/s");
}

/// Two boxes of sixteen halves of MI250: seven links of 50 GB/s each, four of them to the other half,
/// and 16 GB/s between boxes. All but two halves send to these over 300 and twice 16.
#[test]
fn two_mi250_boxes_match_published_rate() {
    let name = |half: usize, nth: usize| format!("{}{nth}", ["a", "b"][half]);
    let mut links = Vec::new();
    for nth in 0..16 {
        let (first, place) = (nth / 8 * 8, nth % 8);
        let there = |further: usize| first + (place + further) % 8;
        links.push((name(0, nth), name(1, nth), 1600));
        links.push((name(0, nth), name(1, there(4)), 400));
        for half in [0, 1] {
            links.push((name(half, nth), name(half, there(1)), 400));
            links.push((name(half, nth), "between".to_owned(), 128));
        }
    }
    let hosts: Vec<_> = (0..32).map(|nth| name(nth / 16, nth % 16)).collect();
    let found = gathered_gbytes_per_s(&graph(&hosts, &["between"], &links));
    assert!((found - 354.13).abs() < 0.01, "{found} GB/s");
}
