//! Tests of routes on small wirings with known results.

use std::collections::BTreeMap;

use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;
use reweave_common::migration_plan::Tables;
use reweave_common::units::Rate;

use super::*;
use crate::topology::{Distances, Wiring, pair, strides};

fn circulant(hosts: usize, steps: &[usize]) -> Wiring {
    let members: Vec<_> = (0..hosts as u32).collect();
    Wiring::of(hosts, strides::pairs(&members, steps))
}

fn all_to_all(hosts: u32) -> BTreeMap<(u32, u32), f64> {
    let pairs = (0..hosts).flat_map(|a| (0..hosts).map(move |b| (a, b)));
    pairs
        .filter(|(a, b)| a != b)
        .map(|pair| (pair, 1.0))
        .collect()
}

/// Returns the share of a lane that each pair gets when all send to all.
fn theta(routes: &Routes, hosts: u32) -> f64 {
    let loads = routes.loads(all_to_all(hosts).iter());
    1.0 / loads.into_iter().fold(0.0, f64::max)
}

/// Hosts, strides, the bound by distances, and the result of equal shortest paths.
const ALL_TO_ALL: [(u32, &[usize], f64, f64); 4] = [
    (12, &[1, 5], 0.2, 0.2),
    (16, &[1, 5], 0.125, 0.104),
    (16, &[1, 7], 0.1176, 0.1176),
    (16, &[1, 3, 5, 9], 0.3636, 0.3636),
];

#[test]
fn balanced_routes_approach_distance_bound() {
    for (hosts, steps, bound, _) in ALL_TO_ALL {
        let wiring = circulant(hosts as usize, steps);
        let distances = Distances::of(&wiring);
        let hops: u32 = (1..hosts).filter_map(|to| distances.hops(0, to)).sum();
        let degree = 2.0 * steps.len() as f64;
        assert!(
            (degree / f64::from(hops) - bound).abs() < 1e-4,
            "{hosts} {steps:?}"
        );
        let routes = balanced(&wiring, &all_to_all(hosts), Effort::default());
        let reached = theta(&routes, hosts);
        assert!(reached <= bound * 1.001, "{hosts} {steps:?}: {reached}");
        assert!(reached >= bound * 0.96, "{hosts} {steps:?}: {reached}");
    }
}

#[test]
fn coin_change_matches_published_throughput() {
    for (hosts, steps, _, even) in ALL_TO_ALL {
        let wiring = circulant(hosts as usize, steps);
        let change = Change::of(hosts as usize, steps);
        let routes = by_coins(Lanes::of(&wiring), &change);
        let reached = theta(&routes, hosts);
        assert!(
            (reached - even).abs() < even * 0.01,
            "{hosts} {steps:?}: {reached}"
        );
    }
}

#[test]
fn coin_change_uses_fewest_coins() {
    let change = Change::of(12, &[1, 5]);
    let hops: Vec<_> = (0..12)
        .map(|distance| change.hops(distance).unwrap())
        .collect();
    assert_eq!(hops, [0, 1, 2, 3, 2, 1, 2, 1, 2, 3, 2, 1]);
    assert_eq!(change.first_steps(6).collect::<Vec<_>>(), [1, 5, 7, 11]);
    assert_eq!(Change::of(6, &[2]).hops(1), None);
}

#[test]
fn all_paths_arrive_without_loops() {
    let wiring = circulant(16, &[1, 5]);
    let routes = balanced(&wiring, &all_to_all(16), Effort::default());
    for (from, to) in all_to_all(16).into_keys() {
        let ways = routes.ways(from, to, 16);
        let whole: f64 = ways.iter().map(|way| way.share).sum();
        assert!((whole - 1.0).abs() < 1e-9);
        for way in ways {
            assert_eq!((way.hosts[0], *way.hosts.last().unwrap()), (from, to));
            let mut met = way.hosts.clone();
            met.sort_unstable();
            met.dedup();
            assert_eq!(met.len(), way.hosts.len(), "{:?}", way.hosts);
        }
    }
}

#[test]
fn busy_forwarder_is_avoided() {
    // From 0 to 1 over 2 or 3; 3 also forwards from 4 to 5.
    let wiring = Wiring::of(6, [[0, 2], [2, 1], [0, 3], [3, 1], [4, 3], [3, 5]]);
    let demand: BTreeMap<_, _> = [((0, 1), 1.0), ((4, 5), 1.0)].into();
    let over_three = |relay| {
        let effort = Effort {
            relay,
            ..Effort::default()
        };
        let ways = balanced(&wiring, &demand, effort).ways(0, 1, 4);
        let there = ways.iter().filter(|way| way.hosts.contains(&3));
        there.map(|way| way.share).sum::<f64>()
    };
    assert!((over_three(None) - 0.5).abs() < 0.05);
    assert!(over_three(Some(1.0)) < 0.1);
}

#[test]
fn single_paths_fill_lanes_evenly() {
    let wiring = circulant(16, &[1, 5]);
    let demand = all_to_all(16);
    let routes = balanced(&wiring, &demand, Effort::default());
    let mut loads = BTreeMap::<_, f64>::new();
    for ways in one_path_each(&routes, &Known::nothing(16), &demand, 8).values() {
        let [way] = &ways[..] else {
            panic!("one way each")
        };
        for hop in way.hosts.windows(2) {
            *loads.entry([hop[0], hop[1]]).or_default() += 1.0;
        }
    }
    let most = loads.values().copied().fold(0.0, f64::max);
    assert!(most <= 10.0, "{most} of 8 on average");
}

/// The link from one host to another, and the class of what waits there.
type Buffer = (u32, u32, u32);

/// Whether buffers that wait for buffers form a circle: each hop's lane and class waits for the next.
fn has_a_circle(waits: &BTreeMap<Buffer, Vec<Buffer>>) -> bool {
    let mut left = waits.clone();
    loop {
        let before = left.len();
        let alive: std::collections::BTreeSet<_> = left.keys().copied().collect();
        left.retain(|_, after| after.iter().any(|it| alive.contains(it)));
        if left.len() == before {
            return before > 0;
        }
    }
}

/// Returns the buffer dependencies of all paths, with the classes of an order; without an order, with one class.
fn waits(routes: &Routes, hosts: u32, order: Option<&Order>) -> BTreeMap<Buffer, Vec<Buffer>> {
    let mut waits = BTreeMap::<_, Vec<_>>::new();
    for (from, to) in all_to_all(hosts).into_keys() {
        for way in routes.ways(from, to, 64) {
            let mut class = 0;
            for three in way.hosts.windows(3) {
                let before = (three[0], three[1], class);
                class += u32::from(order.is_some_and(|it| it.raises(three[0], three[1], three[2])));
                waits
                    .entry(before)
                    .or_default()
                    .push((three[1], three[2], class));
            }
        }
    }
    waits
}

#[test]
fn buffers_cannot_deadlock() {
    for (hosts, steps) in [(12, &[1, 5][..]), (16, &[1, 5]), (20, &[1, 3, 7])] {
        let wiring = circulant(hosts, steps);
        let order = Order::of(&wiring);
        let routes = balanced(&wiring, &all_to_all(hosts as u32), Effort::default());
        assert!(
            has_a_circle(&waits(&routes, hosts as u32, None)),
            "one class would do"
        );
        assert!(!has_a_circle(&waits(&routes, hosts as u32, Some(&order))));
        let classes = order.classes(&routes);
        let used = waits(&routes, hosts as u32, Some(&order));
        let most = used.values().flatten().map(|(.., class)| class + 1).max();
        assert_eq!(Some(classes), most, "{hosts}");

        let single = up_and_down(&wiring, &order);
        assert_eq!(order.classes(&single), 1);
        assert!(!has_a_circle(&waits(&single, hosts as u32, None)));
        for (from, to) in all_to_all(hosts as u32).into_keys() {
            assert!(!single.ways(from, to, 1).is_empty());
        }
    }
}

/// All tables of a fabric without some of its links; of its shortest routes where none are given.
fn tables(
    fabric: &Fabric,
    closed: &[[u32; 2]],
    routes: Option<&Routes>,
    order: Option<&Order>,
) -> Tables {
    let node = |host: u32| NodeId::from_index(host as usize);
    let links = closed.iter().flat_map(|ends| {
        let [a, b] = ends.map(node);
        fabric.links_between(a, b)
    });
    let closed = links.collect();
    let ground = Ground {
        fabric,
        closed: &closed,
    };
    let routes = routes.cloned().unwrap_or_else(|| ground.shortest());
    ground.tables(&routes, order, fabric.nodes().map(|(at, _)| at))
}

/// Follows the heaviest next hops from one node to another, up to a limit.
fn follow(fabric: &Fabric, tables: &Tables, from: NodeId, to: NodeId) -> Vec<NodeId> {
    let mut way = vec![from];
    while way.len() <= fabric.nodes().len() && way[way.len() - 1] != to {
        let at = way[way.len() - 1];
        let next = tables[&at].next_hops(to).iter();
        let Some(heaviest) = next.max_by_key(|it| it.weight) else {
            break;
        };
        way.push(fabric.link(heaviest.link).far(at).node);
    }
    way
}

fn fabric(wiring: &Wiring) -> Fabric {
    let rate = Rate::from_gbps(100.0).unwrap();
    wiring.fabric(rate, Default::default()).unwrap()
}

#[test]
fn tables_hold_paths_with_weights() {
    let wiring = circulant(12, &[1, 5]);
    let fabric = fabric(&wiring);
    let routes = balanced(&wiring, &all_to_all(12), Effort::default());
    let order = Order::of(&wiring);
    let tables = tables(&fabric, &[], Some(&routes), Some(&order));
    for (from, to) in all_to_all(12).into_keys() {
        let ends = [from, to].map(|host| NodeId::from_index(host as usize));
        let way = follow(&fabric, &tables, ends[0], ends[1]);
        assert_eq!(way.last(), Some(&ends[1]), "from {from}: {way:?}");
        let said = tables[&ends[0]].next_hops(ends[1]).iter();
        let said = said.map(|hop| {
            let next = fabric.link(hop.link).far(ends[0]).node;
            (next.index() as u32, hop.weight)
        });
        let meant = routes.next(from, to);
        let meant = meant.map(|(lane, weight)| (routes.lanes().end(lane), u32::from(weight)));
        assert!(said.eq(meant), "from {from} to {to}");
    }
    assert!(tables.values().any(|table| !table.raises.is_empty()));
}

#[test]
fn tables_weigh_hops_by_remaining_paths() {
    // Three paths from 0 to 3 are shortest: two through 1, and one through 2.
    let wiring = Wiring::of(
        6,
        [
            [0, 1],
            [0, 2],
            [1, 4],
            [1, 5],
            [2, 4],
            [4, 3],
            [5, 3],
            [0, 3],
        ],
    );
    let fabric = fabric(&wiring);
    let tables = tables(&fabric, &[[0, 3]], None, None);
    let [h0, h3] = [0, 3].map(NodeId::from_index);
    let weights: Vec<_> = tables[&h0]
        .next_hops(h3)
        .iter()
        .map(|it| it.weight)
        .collect();
    assert_eq!(weights, [2, 1]);
    assert_eq!(follow(&fabric, &tables, h3, h0).len(), 4);
}

/// A next hop that two links lead to has its weight from both together.
#[test]
fn parallel_links_share_hop_weight() {
    let text = r#"
        kind = "graph"
        node = [{ name = "a", role = "relay" }, { name = "b", role = "relay" },
                { name = "c", role = "relay" }, { name = "d", role = "relay" }]
        link = [{ a = "a", b = "b", gbps = 1, count = 2 }, { a = "a", b = "c", gbps = 1 },
                { a = "b", b = "d", gbps = 1 }, { a = "c", b = "d", gbps = 1 }]
    "#;
    let fabric = Fabric::parse("fabric.toml", text).unwrap();
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| fabric.find(name).unwrap());
    let tables = tables(&fabric, &[], None, None);
    let weights = |to| -> Vec<_> {
        let next = tables[&a].next_hops(to).iter();
        next.map(|it| (fabric.link(it.link).far(a).node, it.weight))
            .collect()
    };
    // Two of the three paths begin with a link to b.
    assert_eq!(weights(d), [(b, 1), (b, 1), (c, 1)]);
    assert_eq!(weights(b), [(b, 1), (b, 1)]);
    assert_eq!(weights(c), [(c, 1)]);
}

/// Hosts have other paths at once when a cable fails, without a loop.
#[test]
fn detours_avoid_cable_changing_few_entries() {
    for (hosts, steps) in [(12, &[1, 5][..]), (16, &[1]), (20, &[1, 3, 7])] {
        let wiring = circulant(hosts, steps);
        let routes = balanced(&wiring, &all_to_all(hosts as u32), Effort::default());
        for cable in wiring.pairs() {
            let entries = detours(&routes, cable).unwrap();
            let around = routes.with(&entries);
            for (from, to) in all_to_all(hosts as u32).into_keys() {
                let ways = around.ways(from, to, 64);
                let share: f64 = ways.iter().map(|way| way.share).sum();
                assert!(
                    (share - 1.0).abs() < 1e-9,
                    "{from} to {to} without {cable:?}"
                );
                for way in ways {
                    let crosses = |hop: &[u32]| pair(hop[0], hop[1]) == cable;
                    assert!(!way.hosts.windows(2).any(crosses), "{way:?}");
                    assert!(way.hosts.len() <= hosts, "a circle: {way:?}");
                }
                assert_eq!(
                    around.farthest_first(to).len(),
                    hosts,
                    "a circle towards {to}"
                );
            }
            let touched = entries.iter().filter(|it| !cable.contains(&it.at)).count();
            assert!(
                steps.len() == 1 || touched * 20 < hosts * hosts,
                "{touched}"
            );
        }
    }
}

#[test]
fn bridge_has_no_detour() {
    let wiring = Wiring::of(5, [[0, 1], [1, 2], [2, 3], [3, 0], [3, 4]]);
    let routes = balanced(&wiring, &all_to_all(5), Effort::default());
    assert_eq!(detours(&routes, [3, 4]), None);
    assert!(detours(&routes, [0, 1]).is_some());
}

#[test]
fn loads_match_in_any_order() {
    let wiring = circulant(31, &[1, 5, 12]);
    let demand = all_to_all(31);
    let routes = balanced(&wiring, &demand, Effort::default());
    let by = routes.loads_by(&Distances::of(&wiring), demand.iter());
    let plain = routes.loads(demand.iter());
    for (by, plain) in by.iter().zip(&plain) {
        assert!((by - plain).abs() < 1e-9, "{by} is not {plain}");
    }
}
