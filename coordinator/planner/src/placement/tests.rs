//! Orders against all orders, and against what is known to be best.

use proptest::prelude::*;
use reweave_common::ids::LinkId;

use super::*;
use crate::dice::Dice;
use crate::tests::scene::{Scene, seeded};

fn fabric(leaves: u64, hosts: u64) -> Fabric {
    Scene::leaf_spine(leaves, 2, hosts, 100, 25).fabric
}

fn ring(places: usize) -> Demand {
    let mut demand = Demand {
        places,
        ..Demand::default()
    };
    (0..places).for_each(|place| demand.add(place, (place + 1) % places, 1e6));
    demand
}

fn shuffled(fabric: &Fabric, seed: u64) -> Vec<NodeId> {
    let mut hosts: Vec<_> = fabric.endpoints().collect();
    Dice::new(seed).shuffle(&mut hosts);
    hosts
}

fn request<'a>(
    fabric: &'a Fabric,
    demand: &'a Demand,
    hosts: &'a [NodeId],
    pairs: &'a Pairs,
) -> Request<'a> {
    Request {
        fabric,
        demand,
        hosts,
        pairs,
        seed: 1,
        work: 60_000,
    }
}

/// The time that an order takes at least, computed from the fabric anew.
fn slowest_s(fabric: &Fabric, demand: &Demand, order: &[NodeId], pairs: &Pairs) -> f64 {
    let leaf = |host: NodeId| fabric.link(fabric.links_of(host)[0]).far(host).node;
    let mut times = Vec::new();
    let rate = |links: Vec<LinkId>| {
        links
            .iter()
            .map(|&it| fabric.link(it).rate.bits_per_s() as f64 / 8.0)
            .sum::<f64>()
    };
    for (node, _) in fabric.nodes() {
        let is_host = fabric.node(node).role.is_endpoint();
        let up: Vec<_> = fabric
            .links_of(node)
            .iter()
            .copied()
            .filter(|&it| {
                is_host
                    || !fabric
                        .node(fabric.link(it).far(node).node)
                        .role
                        .is_endpoint()
            })
            .collect();
        let belongs = |place: usize| order[place] == node || leaf(order[place]) == node;
        let [mut out, mut into] = [0.0; 2];
        for (&(from, to), bytes) in &demand.bytes {
            out += if belongs(from) && !belongs(to) {
                *bytes
            } else {
                0.0
            };
            into += if belongs(to) && !belongs(from) {
                *bytes
            } else {
                0.0
            };
        }
        times.push(f64::max(out, into) / rate(up));
    }
    for (&(from, to), bytes) in &demand.bytes {
        times.extend(
            pairs
                .get(&(order[from], order[to]))
                .map(|bits| bytes * 8.0 / bits),
        );
    }
    times
        .into_iter()
        .filter(|it| it.is_finite())
        .fold(0.0, f64::max)
}

fn all_orders(hosts: &[NodeId]) -> Vec<Vec<NodeId>> {
    match hosts {
        [] => vec![Vec::new()],
        _ => (0..hosts.len())
            .flat_map(|nth| {
                let mut rest = hosts.to_vec();
                let first = rest.remove(nth);
                all_orders(&rest)
                    .into_iter()
                    .map(move |tail| [vec![first], tail].concat())
            })
            .collect(),
    }
}

proptest! {
    #![proptest_config(seeded(16))]

    #[test]
    fn few_hosts_are_placed_as_well_as_in_any_order(
        sends in prop::collection::vec((0..5usize, 0..5usize, 1..20u32), 1..9),
        slow in prop::option::of((0..6usize, 0..6usize)),
        seed in 0..50u64,
    ) {
        let fabric = fabric(3, 2);
        let mut demand = Demand { places: 5, ..Demand::default() };
        sends.iter().for_each(|&(from, to, bytes)| demand.add(from, to, f64::from(bytes) * 1e5));
        let hosts = shuffled(&fabric, seed);
        let slow = slow.map(|(a, b)| ((hosts[a], hosts[b]), 1e6));
        let pairs: Pairs = slow.into_iter().collect();
        let placed = place(&request(&fabric, &demand, &hosts, &pairs)).unwrap();
        prop_assert!(placed.proven);
        let times = all_orders(&hosts).into_iter().map(|order| slowest_s(&fabric, &demand, &order, &pairs));
        let best = times.fold(f64::INFINITY, f64::min);
        prop_assert!((placed.after_s - best).abs() <= 1e-9 * best.max(1e-9), "{} {best}", placed.after_s);
        prop_assert!((slowest_s(&fabric, &demand, &placed.order, &pairs) - best).abs() <= 1e-9);
    }
}

#[test]
fn a_shuffled_ring_crosses_each_rack_once_afterwards() {
    let fabric = fabric(4, 8);
    let (hosts, demand, pairs) = (shuffled(&fabric, 3), ring(32), Pairs::new());
    let placed = place(&request(&fabric, &demand, &hosts, &pairs)).unwrap();
    assert_eq!(placed.crossing[1], 4e6);
    assert!(placed.before_s > 3.0 * placed.after_s, "{placed:?}");
    assert_eq!(
        placed.groups.iter().map(Vec::len).collect::<Vec<_>>(),
        [8; 4]
    );
}

#[test]
fn a_thousand_ranks_in_a_ring_cross_each_rack_once() {
    let fabric = fabric(32, 32);
    let (hosts, demand, pairs) = (shuffled(&fabric, 5), ring(1024), Pairs::new());
    let placed = place(&request(&fabric, &demand, &hosts, &pairs)).unwrap();
    assert_eq!(placed.crossing[1], 32e6);
}

#[test]
fn hosts_that_are_not_needed_are_the_slow_ones() {
    let fabric = fabric(2, 8);
    let (hosts, demand) = (shuffled(&fabric, 7), ring(8));
    let slow = hosts[2];
    let pairs: Pairs = hosts
        .iter()
        .flat_map(|&other| [((slow, other), 1e6), ((other, slow), 1e6)])
        .collect();
    let placed = place(&request(&fabric, &demand, &hosts, &pairs)).unwrap();
    assert!(!placed.order.contains(&slow), "{placed:?}");
    assert_eq!(placed.crossing[1], 0.0);
    assert_eq!(place(&request(&fabric, &ring(17), &hosts, &pairs)), None);
}

/// Loads that are kept while places are exchanged are those that are counted anew.
#[test]
fn exchanges_keep_the_loads_true() {
    let fabric = fabric(3, 4);
    let (hosts, pairs) = (shuffled(&fabric, 9), Pairs::new());
    let (mut demand, mut dice) = (ring(10), Dice::new(2));
    for _ in 0..30 {
        demand.add(dice.below(10), dice.below(10), 1e5);
    }
    let judge = Judge::new(&request(&fabric, &demand, &hosts, &pairs));
    let mut order: Vec<_> = (0..hosts.len()).collect();
    let mut loads = judge.loads(&order);
    for _ in 0..200 {
        judge.exchange(
            &mut loads,
            &mut order,
            [dice.below(10), dice.below(hosts.len())],
        );
        let (kept, anew) = (judge.score_of(&loads, &order), judge.score(&order));
        assert!(
            (kept.slowest_s - anew.slowest_s).abs() < 1e-9,
            "{kept:?} {anew:?}"
        );
        assert!(
            (kept.crossing - anew.crossing).abs() < 1e-3,
            "{kept:?} {anew:?}"
        );
    }
}
