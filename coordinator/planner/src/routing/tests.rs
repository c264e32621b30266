//! What is known of routes on small wirings.

use std::collections::BTreeMap;

use super::*;
use crate::topology::{Distances, Wiring, strides};

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

/// What each pair can have of a lane when all send to all.
fn theta(routes: &Routes, hosts: u32) -> f64 {
    let loads = routes.loads(all_to_all(hosts).iter());
    1.0 / loads.into_iter().fold(0.0, f64::max)
}

/// Hosts, strides, what the distances allow, and what all shortest ways alike reach.
const ALL_TO_ALL: [(u32, &[usize], f64, f64); 4] = [
    (12, &[1, 5], 0.2, 0.2),
    (16, &[1, 5], 0.125, 0.104),
    (16, &[1, 7], 0.1176, 0.1176),
    (16, &[1, 3, 5, 9], 0.3636, 0.3636),
];

#[test]
fn balanced_routes_come_near_to_what_distances_allow() {
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
fn change_in_all_orders_alike_reaches_what_is_published() {
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
fn change_takes_the_fewest_coins() {
    let change = Change::of(12, &[1, 5]);
    let hops: Vec<_> = (0..12)
        .map(|distance| change.hops(distance).unwrap())
        .collect();
    assert_eq!(hops, [0, 1, 2, 3, 2, 1, 2, 1, 2, 3, 2, 1]);
    assert_eq!(change.first_steps(6).collect::<Vec<_>>(), [1, 5, 7, 11]);
    assert_eq!(Change::of(6, &[2]).hops(1), None);
}

#[test]
fn no_way_leads_in_a_circle_and_all_arrive() {
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
fn a_host_that_must_forward_much_already_is_passed_by() {
    // From 0 to 1 over 2 or 3, and 3 has to forward from 4 to 5 besides.
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
fn pairs_of_one_way_each_fill_lanes_as_evenly() {
    let wiring = circulant(16, &[1, 5]);
    let demand = all_to_all(16);
    let routes = balanced(&wiring, &demand, Effort::default());
    let mut loads = BTreeMap::<_, f64>::new();
    for ways in one_way_each(&routes, &Known::nothing(16), &demand, 8).values() {
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

/// By what all ways wait for, with the classes that an order gives; with one class only without.
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
fn no_circle_of_full_buffers_can_arise() {
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

#[test]
fn tables_hold_the_ways_of_their_host() {
    use reweave_common::units::Rate;
    let wiring = circulant(12, &[1, 5]);
    let fabric = wiring
        .fabric(Rate::from_gbps(100.0).unwrap(), Default::default())
        .unwrap();
    let routes = balanced(&wiring, &all_to_all(12), Effort::default());
    let order = Order::of(&wiring);
    let tables: Vec<_> = (0..12)
        .map(|host| table(&routes, &order, &fabric, host))
        .collect();
    for (from, to) in all_to_all(12).into_keys() {
        let mut at = from;
        for _ in 0..12 {
            let node = reweave_common::ids::NodeId::from_index(to as usize);
            let Some(next) = tables[at as usize].next_hops(node).first() else {
                break;
            };
            at = fabric
                .link(next.link)
                .far(tables[at as usize].at)
                .node
                .index() as u32;
        }
        assert_eq!(at, to, "from {from}");
    }
    assert!(tables.iter().any(|table| !table.raises.is_empty()));
}

#[test]
fn loads_in_the_order_of_distances_are_those_in_any_order() {
    let wiring = circulant(31, &[1, 5, 12]);
    let demand = all_to_all(31);
    let routes = balanced(&wiring, &demand, Effort::default());
    let by = routes.loads_by(&Distances::of(&wiring), demand.iter());
    let plain = routes.loads(demand.iter());
    for (by, plain) in by.iter().zip(&plain) {
        assert!((by - plain).abs() < 1e-9, "{by} is not {plain}");
    }
}
