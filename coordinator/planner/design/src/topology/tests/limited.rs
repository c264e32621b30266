//! Ports, reach and what has failed.

use reweave_common::iteration::Operation;

use super::chosen::Training;
use super::*;
use crate::crew::{Alone, HourGlass};

fn demand(hosts: usize) -> Demand {
    let pairs = (0..hosts as u32).map(|a| ((a, (a + 3) % hosts as u32), 1e6));
    Demand {
        hosts,
        groups: Vec::new(),
        pairs: pairs.collect(),
    }
}

#[track_caller]
fn all_hold(limits: &Limits) {
    let designs = families::all(&demand(limits.hosts()), limits, 5);
    assert!(designs.len() >= 5);
    for design in designs {
        assert!(limits.hold(&design.wiring), "{}", design.family);
        assert!(design.wiring.is_connected(), "{}", design.family);
        for ring in &design.rings {
            assert_eq!(ring.len(), limits.hosts());
        }
    }
}

#[test]
fn failed_ports_and_fibres_stay_dark() {
    let mut limits = Limits::plain(16, 4);
    limits.ports[3] = 3;
    limits.ports[7] = 2;
    limits.cut = [[0, 1], [2, 9]].into();
    all_hold(&limits);
}

#[test]
fn cables_respect_maximum_reach() {
    let mut limits = Limits::plain(16, 4);
    limits.reach = Some(Reach {
        places_m: (0..16).map(|host| f64::from(host) * 2.0).collect(),
        most_m: 9.0,
    });
    let near = limits.clone();
    assert!(near.allow(0, 4) && !near.allow(0, 5));
    let designs = families::all(&demand(16), &limits, 5);
    let designs: Vec<_> = designs
        .iter()
        .filter(|it| it.wiring.is_connected())
        .collect();
    assert!(!designs.is_empty());
    assert!(designs.iter().all(|it| limits.hold(&it.wiring)));
}

#[test]
fn hosts_on_different_panels_stay_unjoined() {
    let mut limits = Limits::plain(12, 4);
    let panel = |name: &str, hosts: std::ops::Range<usize>| {
        let count = |host| if hosts.contains(&host) { 4 } else { 0 };
        Panel::numbered(name.to_owned(), &(0..12).map(count).collect::<Vec<_>>())
    };
    limits.panels = vec![panel("left", 0..8), panel("right", 4..12)];
    assert!(limits.allow(0, 7) && !limits.allow(0, 8) && limits.allow(4, 11));
    let designs = families::all(&demand(12), &limits, 5);
    assert!(designs.iter().any(|it| it.wiring.is_connected()));
    assert!(designs.iter().all(|it| limits.hold(&it.wiring)));
}

#[test]
fn only_unpaired_ports_stay_idle() {
    for (hosts, degree) in [(13, 3), (15, 5), (9, 7), (16, 5), (2, 1), (3, 2)] {
        for design in families::all(&demand(hosts), &Limits::plain(hosts, degree), 1) {
            let idle = hosts * degree - 2 * design.wiring.cables();
            assert!(
                idle <= hosts * degree % 2 + 2,
                "{hosts} {degree}: {} {idle}",
                design.family
            );
        }
    }
}

/// The stride algorithm assumes every cable: if one is impossible, traffic takes another path.
#[test]
fn missing_ring_cable_keeps_all_reachable() {
    let groups = vec![(0..12).collect()];
    let iteration = chosen::together(12, &groups, Operation::AllReduce);
    let training = Training::of(iteration);
    let job = training.job();
    let mut request = chosen::request(12, 4);
    request.limits.cut = [[0, 1], [4, 9]].into();
    let drafts = drafts(&job, &request).unwrap();
    let totient = drafts
        .iter()
        .find(|it| it.design.family.word() == "totient")
        .unwrap();
    assert!(!totient.design.is_as_named());
    for draft in &drafts {
        for (from, to) in (0..12).flat_map(|a| (0..12).map(move |b| (a, b))) {
            let share: f64 = draft
                .routes
                .ways(from, to, 64)
                .iter()
                .map(|it| it.share)
                .sum();
            let what = draft.design.words();
            assert!(
                from == to || (share - 1.0).abs() < 1e-9,
                "{what}: {from} to {to}: {share}"
            );
        }
    }
}

/// The names in a report match the candidates.
#[test]
fn candidates_are_distinct_and_named_exactly() {
    // Any two of five hosts are joined, in every family.
    let designs = families::all(&demand(5), &Limits::plain(5, 4), 1);
    assert_eq!(designs.len(), 1, "{designs:?}");
    let mut limits = Limits::plain(12, 4);
    limits.cut = [[0, 1]].into();
    let designs = families::all(&demand(12), &limits, 1);
    let totient = designs
        .iter()
        .find(|it| it.family.word() == "totient")
        .unwrap();
    let words = totient.words();
    assert!(
        words.starts_with("rings by strides 1, 5 without "),
        "{words}"
    );
    let joined = totient.wiring.cables() + totient.altered.lacking - totient.altered.more;
    assert_eq!(joined, 24, "{words}");
}

/// The heaviest pairs without a host in common, by trying all.
fn most_matched(free: &[(Pair, f64)]) -> f64 {
    let Some((&([a, b], bytes), rest)) = free.split_first() else {
        return 0.0;
    };
    let apart = |&&(ends, _): &&(Pair, f64)| !ends.contains(&a) && !ends.contains(&b);
    let left: Vec<_> = rest.iter().filter(apart).copied().collect();
    most_matched(rest).max(bytes + most_matched(&left))
}

proptest::proptest! {
    #[test]
    fn matching_weight_is_maximal(
        bytes in proptest::collection::vec(0..40u32, 21),
        ports in proptest::collection::vec(0..4usize, 7),
        hosts in 2..8usize,
    ) {
        let pairs = (0..hosts as u32).flat_map(|a| (a + 1..hosts as u32).map(move |b| [a, b]));
        let weights: matching::Weights = pairs.zip(bytes.into_iter().map(f64::from)).collect();
        let mut limits = Limits::plain(hosts, 1);
        limits.ports = ports[..hosts].to_vec();
        let fits = |[a, b]: Pair| [a, b].iter().all(|&end| limits.ports[end as usize] > 0);
        let free: Vec<_> = weights.clone().into_iter().filter(|it| fits(it.0)).collect();
        let found = matching::heaviest(&weights, &Wiring::new(hosts), &limits);
        proptest::prop_assert!(found.iter().all(|&ends| fits(ends)));
        let ends: std::collections::BTreeSet<_> = found.iter().flatten().collect();
        proptest::prop_assert_eq!(ends.len(), found.len() * 2);
        let sum: f64 = found.iter().map(|ends| weights[ends]).sum();
        proptest::prop_assert_eq!(sum, most_matched(&free));
    }
}

/// Five hosts in a row: the heaviest pair alone would leave out two that weigh more together.
#[test]
fn matching_is_heaviest() {
    let weights: matching::Weights = [
        ([0, 1], 10.0),
        ([1, 2], 11.0),
        ([2, 3], 10.0),
        ([3, 4], 1.0),
    ]
    .into();
    let (empty, limits) = (Wiring::new(5), Limits::plain(5, 1));
    assert_eq!(
        matching::heaviest(&weights, &empty, &limits),
        [[0, 1], [2, 3]]
    );
    let joined = Wiring::of(5, [[0, 1]]);
    let plain = Limits::plain(5, 2);
    assert_eq!(
        matching::heaviest(&weights, &joined, &plain),
        [[1, 2], [3, 4]]
    );
    let mut cut = Limits::plain(5, 1);
    cut.cut = [[2, 3]].into();
    assert_eq!(matching::heaviest(&weights, &empty, &cut), [[1, 2], [3, 4]]);
}

/// The weight of a joined pair is halved, so that others are served.
#[test]
fn successive_matchings_halve_served_weight() {
    let mut weights: matching::Weights =
        [([0, 1], 10.0), ([1, 2], 6.0), ([2, 3], 10.0), ([0, 3], 6.0)].into();
    let mut wiring = Wiring::new(4);
    matching::add(&mut wiring, &mut weights, 2, &Limits::plain(4, 2));
    assert_eq!(wiring.pairs(), [[0, 1], [0, 3], [1, 2], [2, 3]]);
    assert_eq!(weights[&[0, 1]], 5.0);
    assert_eq!(weights[&[0, 3]], 3.0);
}

/// Ports of groups, rounded up, and one at least: d_A and what is left for d_MP.
#[test]
fn ports_are_distributed_by_bytes() {
    let demand = |groups: f64, pairs: f64| Demand {
        hosts: 8,
        groups: vec![Group {
            members: (0..8).collect(),
            bytes: groups / 8.0,
        }],
        pairs: [((0, 1), pairs)].into(),
    };
    for (groups, pairs, ports, of_groups) in [
        (1.0, 0.0, 4, 4),
        (3.0, 1.0, 4, 3),
        (1.0, 1.0, 4, 2),
        (1.0, 2.0, 4, 2),
        (0.0, 1.0, 4, 1),
        (1.0, 9.0, 8, 1),
        (5.0, 3.0, 8, 5),
    ] {
        let found = families::ports_of_groups(&demand(groups, pairs), ports);
        assert_eq!(found, of_groups, "{groups} to {pairs} on {ports}");
    }
}

/// When time is up from the beginning, one candidate is simulated, and the others are named.
#[test]
fn expired_deadline_still_yields_topology() {
    let groups = vec![(0..12).collect()];
    let iteration = chosen::together(12, &groups, Operation::AllToAll);
    let training = Training::of(iteration);
    let job = training.job();
    let request = chosen::request(12, 4);
    let hasty = plan_until(&job, &request, &crate::crew::Alone, &|| false).unwrap();
    assert!(hasty.lost.iter().all(|lost| lost.iteration_ms.is_none()));
    let patient = plan(&job, &request).unwrap();
    assert!(patient.lost.iter().any(|lost| lost.iteration_ms.is_some()));
    assert!(patient.evaluation.iteration_ms <= hasty.evaluation.iteration_ms);
}

/// Wherever it is when time runs out, in routes, a simulation or an interval, it stops there.
#[test]
fn unfinished_candidate_is_dropped_at_deadline() {
    let iteration = chosen::together(12, &[(0..12).collect()], Operation::AllToAll);
    let training = Training::of(iteration);
    let planned = |looks: usize, interval: bool| {
        let request = Request {
            interval,
            ..chosen::request(12, 4)
        };
        let glass = HourGlass::new(looks);
        let (job, in_time) = (training.job(), || glass.runs());
        let proposal = plan_until(&job, &request, &Alone, &in_time).unwrap();
        let simulated = proposal.lost.iter().filter(|it| it.iteration_ms.is_some());
        let found = (simulated.count(), proposal.interval.is_some());
        (found, glass.looks())
    };
    let ((all, _), looks) = planned(usize::MAX, false);
    assert!(all >= 2);
    assert_eq!(planned(looks, true).0, (all, false));
    // The last of the candidates is begun in time, and done too late; then not begun.
    assert_eq!(planned(looks - 1, true).0, (all - 1, false));
    assert_eq!(planned(looks - 2, true).0, (all - 1, false));
    assert_eq!(planned(0, true).0, (0, false));
    let none = plan_in_time(&training.job(), &chosen::request(12, 4), &Alone, &|| false);
    assert!(none.unwrap().is_none());
}
