//! Circuits for counts of gates, compared with all possible circuits, and whether they pay off.

use proptest::prelude::*;
use reweave_common::split_mix::SplitMix64;

use crate::cluster::regional::{Circuits, Counts, Region, parse};

fn region(ports: usize) -> Region {
    Region {
        ports,
        circuit_gbps: 100.0,
        switched_gbps: 100.0,
    }
}

fn counts(hosts: usize, bytes: &[u32]) -> Counts {
    let mut counts = Counts::new(hosts);
    for (nth, &bytes) in bytes.iter().take(hosts * hosts).enumerate() {
        counts.add(nth / hosts, nth % hosts, f64::from(bytes) * 1e6);
    }
    counts
}

/// Returns the best time over all circuits that the ports allow, by brute force.
fn best_ms(region: &Region, counts: &Counts) -> f64 {
    let hosts = counts.hosts();
    let pairs: Vec<_> = (0..hosts)
        .flat_map(|a| (a + 1..hosts).map(move |b| [a, b]))
        .collect();
    let mut laid = Vec::new();
    deeper(region, counts, &pairs, &mut laid)
}

fn deeper(
    region: &Region,
    counts: &Counts,
    pairs: &[[usize; 2]],
    laid: &mut Vec<[usize; 2]>,
) -> f64 {
    let mut best = region.time_ms(counts, &Circuits::of(counts.hosts(), laid));
    for (nth, &[a, b]) in pairs.iter().enumerate() {
        let used = |host| laid.iter().flatten().filter(|&&end| end == host).count();
        if used(a) < region.ports && used(b) < region.ports {
            laid.push([a, b]);
            best = best.min(deeper(region, counts, &pairs[nth..], laid));
            laid.pop();
        }
    }
    best
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn few_host_circuits_are_optimal(
        bytes in prop::collection::vec(0..100u32, 25),
        hosts in 2..6usize,
        ports in 1..3usize,
    ) {
        let (region, counts) = (region(ports), counts(hosts, &bytes));
        let circuits = region.circuits(&counts);
        prop_assert!((0..hosts).all(|host| circuits.degree(host) <= ports));
        let (found, best) = (region.time_ms(&counts, &circuits), best_ms(&region, &counts));
        prop_assert!((found / best - 1.0).abs() < 1e-6 || found == best, "{found} ms, and {best} ms would be possible");
    }

    #[test]
    fn circuits_never_slow_exchange(bytes in prop::collection::vec(0..1000u32, 64), ports in 0..5usize) {
        let counts = counts(8, &bytes);
        let [with, without] = [ports, 0].map(|ports| {
            let region = region(ports);
            region.time_ms(&counts, &region.circuits(&counts))
        });
        prop_assert!(with <= without);
    }
}

/// One pair sends 100 MB, over circuits of 100 Gb/s and a packet network of the same rate.
#[test]
fn circuit_serves_pair_in_both_directions() {
    let counts = counts(2, &[0, 100, 0, 0]);
    let time = |ports| region(ports).time_ms(&counts, &region(ports).circuits(&counts));
    assert!((time(0) - 8.0).abs() < 1e-9 && (time(1) - 4.0).abs() < 1e-9);
    assert!((time(3) - 2.0).abs() < 1e-9);
}

/// Returns the time by bisection.
fn slow_ms(region: &Region, lanes: &[(f64, f64)]) -> f64 {
    let [circuit, switched] = [region.circuit_gbps, region.switched_gbps].map(|gbps| gbps * 125e3);
    let left = |ms: f64| {
        let of_lane = lanes
            .iter()
            .map(|(bytes, count)| (bytes - count * circuit * ms).max(0.0));
        of_lane.sum::<f64>() - switched * ms
    };
    let mut bounds = [
        0.0,
        lanes.iter().map(|(bytes, _)| bytes).sum::<f64>() / switched,
    ];
    for _ in 0..100 {
        let middle = (bounds[0] + bounds[1]) / 2.0;
        bounds[usize::from(left(middle) <= 0.0)] = middle;
    }
    bounds[1]
}

proptest! {
    #[test]
    fn exchange_time_matches_slow_computation(
        lanes in prop::collection::vec((0..1000u32, 0..4usize), 1..9),
    ) {
        let region = region(32);
        let hosts = lanes.len() + 1;
        let mut counts = Counts::new(hosts);
        let mut pairs = Vec::new();
        for (nth, &(bytes, circuits)) in lanes.iter().enumerate() {
            counts.add(0, nth + 1, f64::from(bytes) * 1e6);
            pairs.extend(std::iter::repeat_n([0, nth + 1], circuits));
        }
        let lanes: Vec<_> = lanes.iter().map(|&(bytes, it)| (f64::from(bytes) * 1e6, it as f64)).collect();
        let slow = slow_ms(&region, &lanes);
        let ms = region.time_ms(&counts, &Circuits::of(hosts, &pairs));
        prop_assert!((ms - slow).abs() <= 1e-9 * slow.max(1.0), "{ms} and {slow} ms");
    }
}

/// Returns counts of gates that favour some experts for a while: the largest flows change every `stays` iterations.
fn gates(stays: usize) -> Vec<Counts> {
    let mut rng = SplitMix64::new(7);
    let mut shift = 1;
    let iteration = |nth: usize| {
        if nth.is_multiple_of(stays) {
            shift = 1 + rng.below(7);
        }
        let mut counts = Counts::new(8);
        for from in 0..8 {
            for to in 0..8 {
                let favoured = to == (from + shift) % 8 || from == (to + shift) % 8;
                counts.add(from, to, if favoured { 50e6 } else { 1e6 });
            }
        }
        counts
    };
    (0..30).map(iteration).collect()
}

#[test]
fn moving_circuits_pay_for_steady_gates() {
    let advice = region(2).advice(&gates(10), |_| 0.02, 0.0).unwrap();
    assert!(
        advice.pays && advice.regional_ms < advice.static_ms,
        "{advice:?}"
    );
}

#[test]
fn unprofitable_circuit_moves_are_reported() {
    let slow = region(2).advice(&gates(10), |_| 50.0, 0.0).unwrap();
    assert!(!slow.pays && slow.pays_below_ms > 0.02, "{slow:?}");
    assert!(
        slow.why.contains("do not pay") && slow.why.contains("a switch that takes less than"),
        "{slow:?}"
    );
    let restless = region(2).advice(&gates(1), |_| 0.0, 0.0).unwrap();
    assert!(!restless.pays, "{restless:?}");
    assert!(restless.why.contains("change too much"), "{restless:?}");
    let steady = region(2).advice(&gates(30), |_| 0.0, 0.0).unwrap();
    assert!(!steady.pays, "{steady:?}");
    assert!(steady.why.contains("change too little"), "{steady:?}");
    assert_eq!(region(2).advice(&gates(10)[..2], |_| 0.0, 0.0), None);
}

/// Circuits move in every tenth iteration only, so that a switch may take ten times as long as one that moves
/// them in each.
#[test]
fn tolerable_switch_time_follows_move_rate() {
    let with = |ms: f64| region(2).advice(&gates(10), |_| ms, 0.0).unwrap();
    let most_ms = with(50.0).pays_below_ms;
    assert!(
        with(most_ms * 0.99).pays && !with(most_ms * 1.01).pays,
        "{most_ms}"
    );
}

/// Each host favours two others, others in each iteration: six ports for circuits reach all seven nearly.
#[test]
fn more_ports_may_replace_circuit_moves() {
    let advice = region(2).advice(&gates(10), |_| 50.0, 0.0).unwrap();
    let ports = advice.ports_instead.unwrap();
    assert!((3..=8).contains(&ports), "{advice:?}");
}

/// The last favourite is never the next, so moved circuits are always wrong. One port with constant circuits is as good
/// as two.
#[test]
fn fewer_ports_may_match_circuit_moves() {
    let iteration = |nth: usize| {
        let (shift, mut counts) = (1 + nth % 2, Counts::new(8));
        for from in 0..8 {
            for to in 0..8 {
                let favoured = to == (from + shift) % 8 || from == (to + shift) % 8;
                counts.add(from, to, if favoured { 50e6 } else { 1e6 });
            }
        }
        counts
    };
    let past: Vec<_> = (0..30).map(iteration).collect();
    let advice = region(2).advice(&past, |_| 0.0, 0.0).unwrap();
    assert_eq!(advice.ports_instead, Some(1), "{advice:?}");
}

#[test]
fn gate_counts_parse_or_name_line() {
    let text = "iteration,from,to,bytes\n0,0,1,5\n1, 1, 0, 7\n\n1,1,1,9\n";
    let all = parse("g.csv", text, 2).unwrap();
    assert_eq!(
        (all.len(), all[1].between(1, 0), all[1].between(1, 1)),
        (2, 7.0, 0.0)
    );
    for (line, said) in [
        ("0,0,2,5", "g.csv:1: to: \"2\" is not between 0 and 1"),
        ("0,0,1", "g.csv:1: a line has iteration,from,to,bytes"),
        (
            "0,0,1,many",
            "g.csv:1: bytes: \"many\" is not a number of bytes",
        ),
    ] {
        assert_eq!(parse("g.csv", line, 2).unwrap_err().to_string(), said);
    }
}
