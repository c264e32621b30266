//! Small problems compared with all assignments, large ones with their bound.

use std::collections::BTreeSet;

use proptest::prelude::*;
use reweave_common::split_mix::SplitMix64;

use super::*;
use crate::tests::scene::seeded;

/// Returns leaves joined by spines: the uplink of leaf l to spine s is hop l * spines + s, and the downlinks follow
/// after all uplinks.
fn leaf_spine(leaves: usize, spines: usize) -> Problem {
    let hops = 2 * leaves * spines;
    let way = |from: usize, to: usize, spine: usize| {
        vec![from * spines + spine, (leaves + to) * spines + spine]
    };
    let ways = |pair: usize| {
        let (from, to) = (pair / leaves, pair % leaves);
        (0..spines).map(|spine| way(from, to, spine)).collect()
    };
    Problem {
        capacities: vec![1.0; hops],
        base: vec![0; hops],
        pairs: (0..leaves * leaves).map(ways).collect(),
        ..Problem::default()
    }
}

fn with_flows(mut problem: Problem, flows: &[(usize, usize, u64)]) -> Problem {
    let flow = |&(pair, way, weight): &(usize, usize, u64)| Flow {
        pair,
        way,
        weight,
        homeless: false,
    };
    problem.flows = flows.iter().map(flow).collect();
    problem
}

/// Returns the fullness of each hop.
fn loads(problem: &Problem, ways: &[usize]) -> Vec<f64> {
    let mut loads = problem.base.clone();
    for (flow, &way) in problem.flows.iter().zip(ways) {
        let hops = problem.pairs[flow.pair][way].iter();
        hops.for_each(|&hop| loads[hop] += flow.weight);
    }
    let loads = loads.iter().zip(&problem.capacities);
    loads
        .map(|(load, capacity)| *load as f64 / capacity)
        .collect()
}

/// Returns sets of equivalent hops, directly or indirectly.
fn sets(problem: &Problem) -> Vec<BTreeSet<usize>> {
    let mut sets: Vec<BTreeSet<usize>> = Vec::new();
    for flow in &problem.flows {
        let pair = &problem.pairs[flow.pair];
        for place in 0..pair[0].len() {
            let mut set: BTreeSet<_> = pair.iter().map(|way| way[place]).collect();
            sets.retain(|other| {
                let apart = set.is_disjoint(other);
                if !apart {
                    set.extend(other);
                }
                apart
            });
            sets.push(set);
        }
    }
    sets.retain(|set| set.len() > 1);
    sets
}

/// Returns the fullness of the fullest hop of each set, worst first, computed independently.
fn peaks(problem: &Problem, ways: &[usize]) -> Vec<f64> {
    let loads = loads(problem, ways);
    let fullest = |set: &BTreeSet<usize>| set.iter().map(|hop| loads[*hop]).fold(0.0, f64::max);
    let mut peaks: Vec<_> = sets(problem).iter().map(fullest).collect();
    peaks.sort_by(|a, b| b.total_cmp(a));
    peaks
}

/// The best peaks and fewest moves of all assignments.
fn by_force(problem: &Problem) -> (Vec<f64>, usize) {
    let mut ways = vec![0; problem.flows.len()];
    let mut best: Option<(Vec<f64>, usize)> = None;
    loop {
        let moved = ways.iter().zip(&problem.flows);
        let moves = moved.filter(|(way, flow)| **way != flow.way).count();
        let this = (peaks(problem, &ways), moves);
        if best.as_ref().is_none_or(|best| this < *best) {
            best = Some(this);
        }
        let next = (0..ways.len()).find(|&flow| {
            ways[flow] += 1;
            let wraps = ways[flow] == problem.pairs[problem.flows[flow].pair].len();
            ways[flow] = if wraps { 0 } else { ways[flow] };
            !wraps
        });
        if next.is_none() {
            return best.unwrap();
        }
    }
}

fn agrees(problem: &Problem) -> Result<(), TestCaseError> {
    let (found, (best, moves)) = (solve(problem), by_force(problem));
    prop_assert!(found.proven);
    let ours = peaks(problem, &found.ways);
    for (ours, best) in ours.iter().zip(&best) {
        prop_assert!((ours - best).abs() < 1e-9, "{ours} {best}");
    }
    prop_assert_eq!(found.moves - found.levelling, moves);
    let least = best.first().copied().unwrap_or_default();
    let [after, bound] = [found.after, found.bound].map(|it| it.fullest);
    prop_assert!(
        (after - least).abs() < 1e-9 && (bound - least).abs() < 1e-9,
        "{found:?}"
    );
    prop_assert!(found.gap < 1e-9, "{found:?}");
    is_level(problem, &found.ways)
}

/// No step alone makes the fullest of what it touches so much less full, without a peak that rises.
fn is_level(problem: &Problem, ways: &[usize]) -> Result<(), TestCaseError> {
    let (now, present) = (loads(problem, ways), peaks(problem, ways));
    for (nth, flow) in problem.flows.iter().enumerate() {
        let own = &problem.pairs[flow.pair][ways[nth]];
        let before = own.iter().map(|&hop| now[hop]).fold(0.0, f64::max);
        for (way, hops) in problem.pairs[flow.pair].iter().enumerate() {
            let mut others = ways.to_vec();
            others[nth] = way;
            let then = loads(problem, &others);
            let touched = own.iter().chain(hops);
            let after = touched.map(|&hop| then[hop]).fold(0.0, f64::max);
            let better = after < before * (1.0 - problem.least_gain) * (1.0 - 1e-6);
            let rises = peaks(problem, &others)
                .iter()
                .zip(&present)
                .any(|(then, now)| *then > now * (1.0 + 1e-9));
            prop_assert!(!better || rises, "flow {nth} to {way}: {before} to {after}");
        }
    }
    Ok(())
}

/// Leaves and spines where the last leaf has no link to the last spine.
fn degraded(leaves: usize, spines: usize) -> Problem {
    let mut problem = leaf_spine(leaves, spines);
    for (pair, ways) in problem.pairs.iter_mut().enumerate() {
        if [pair / leaves, pair % leaves].contains(&(leaves - 1)) {
            *ways = ways.iter().take(ways.len() - 1).collect();
        }
    }
    problem
}

/// Returns a problem between leaves, over existing paths.
fn sound(
    problem: &Problem,
    leaves: usize,
    flows: Vec<(usize, usize, u64)>,
) -> Vec<(usize, usize, u64)> {
    let between = flows
        .into_iter()
        .filter(|(pair, ..)| pair / leaves != pair % leaves);
    let there = between.map(|(pair, way, weight)| (pair, way % problem.pairs[pair].len(), weight));
    there.collect()
}

proptest! {
    #![proptest_config(seeded(150))]

    #[test]
    fn small_assignments_match_brute_force(
        flows in prop::collection::vec((0..9usize, 0..3usize, 1..6u64), 1..7),
        capacities in prop::collection::vec(1..3u8, 18),
    ) {
        let flows: Vec<_> = flows.into_iter().filter(|(pair, _, _)| pair / 3 != pair % 3).collect();
        prop_assume!(!flows.is_empty());
        let mut problem = with_flows(leaf_spine(3, 3), &flows);
        problem.capacities = capacities.into_iter().map(f64::from).collect();
        agrees(&problem)?;
    }

    /// Some leaves have a choice that others lack: what they share is weighed by what it carries.
    #[test]
    fn degraded_uplinks_match_brute_force(
        flows in prop::collection::vec((0..9usize, 0..3usize, 1..6u64), 1..7),
    ) {
        let problem = degraded(3, 3);
        let flows = sound(&problem, 3, flows);
        prop_assume!(!flows.is_empty());
        let problem = with_flows(problem, &flows);
        let home: Vec<_> = problem.flows.iter().map(|flow| flow.way).collect();
        prop_assert!(peaks(&problem, &solve(&problem).ways) <= peaks(&problem, &home));
        agrees(&problem)?;
    }

    /// Checks that a result under a low work limit is never worse than the present state, and never wrongly claimed to
    /// be optimal.
    #[test]
    fn little_work_claims_little(
        flows in prop::collection::vec((0..9usize, 0..3usize, 1..6u64), 1..7),
        base in prop::collection::vec(0..4u64, 18),
        work in 0..30usize,
    ) {
        let problem = degraded(3, 3);
        let flows = sound(&problem, 3, flows);
        prop_assume!(!flows.is_empty());
        let mut problem = Problem { base, ..with_flows(problem, &flows) };
        problem.work = Work { exact: work, repair: work, closer: work };
        let (found, (best, moves)) = (solve(&problem), by_force(&problem));
        let home: Vec<_> = problem.flows.iter().map(|flow| flow.way).collect();
        let (then, now) = (peaks(&problem, &found.ways), peaks(&problem, &home));
        let no_more = |then: &[f64], now: &[f64]| then[0] <= now[0] * (1.0 + 1e-9);
        prop_assert!(then.is_empty() || no_more(&then, &now), "{then:?} {now:?}");
        if let Some(best) = best.first() {
            prop_assert!(found.bound.fullest <= best * (1.0 + 1e-9), "{found:?} {best}");
        }
        if found.proven {
            prop_assert!(then.iter().zip(&best).all(|(then, best)| (then - best).abs() < 1e-9));
            prop_assert_eq!(found.moves - found.levelling, moves);
        } else {
            prop_assert!(found.least_moves <= found.moves);
        }
    }

    /// A pool that gains too little moves no flow, whatever another gains: moving a flow back would undo a gain, or
    /// make such a pool fuller than before.
    #[test]
    fn every_move_serves_gaining_pool(
        flows in prop::collection::vec((0..16usize, 0..3usize, 40..60u64), 2..9),
    ) {
        let flows = sound(&leaf_spine(4, 3), 4, flows);
        prop_assume!(!flows.is_empty());
        let problem = Problem { least_gain: 0.2, ..with_flows(leaf_spine(4, 3), &flows) };
        let found = solve(&problem);
        is_level(&problem, &found.ways)?;
        prop_assume!(found.levelling == 0);
        let home: Vec<_> = problem.flows.iter().map(|flow| flow.way).collect();
        let fullest = |ways: &[usize]| {
            let (sets, loads) = (sets(&problem), loads(&problem, ways));
            let fullest = sets.iter().map(|set| set.iter().map(|&hop| loads[hop]).fold(0.0, f64::max));
            fullest.collect::<Vec<_>>()
        };
        let (now, then) = (fullest(&home), fullest(&found.ways));
        let gained = |place: usize| then[place] < now[place] * 0.8;
        for flow in (0..home.len()).filter(|&flow| home[flow] != found.ways[flow]) {
            let mut back = found.ways.clone();
            back[flow] = home[flow];
            let back = fullest(&back);
            let harms = |place: usize| back[place] > if gained(place) { then[place] } else { now[place] };
            prop_assert!((0..now.len()).any(harms), "{flow} {found:?}");
        }
    }

    #[test]
    fn equal_flows_reach_their_bound_everywhere(
        flows in prop::collection::vec((0..16usize, 0..4usize), 8..80),
    ) {
        let flows: Vec<_> = flows
            .into_iter()
            .filter(|(pair, _)| pair / 4 != pair % 4)
            .map(|(pair, way)| (pair, way, 7))
            .collect();
        let mut problem = with_flows(leaf_spine(4, 4), &flows);
        problem.work.exact = 0;
        let found = solve(&problem);
        // Edges of a graph in two parts can be coloured evenly at every node.
        let loads = loads(&problem, &found.ways);
        let reached = |pool: &Pool| is_at(pool.fullest(|hop| loads[hop]), pool.bound);
        prop_assert!(bound::pools(&problem).iter().all(reached), "{found:?}");
        prop_assert!(found.gap < 1e-9, "{found:?}");
        prop_assert!(found.least_moves <= found.moves);
    }
}

#[test]
fn colliding_flows_need_one_move() {
    let found = solve(&with_flows(leaf_spine(2, 2), &[(1, 0, 5), (1, 0, 5)]));
    let [before, after] = [found.before, found.after].map(|it| it.over_mean);
    assert_eq!((before, after, found.moves), (2.0, 1.0, 1));
    assert!(found.proven);
}

#[test]
fn optimal_assignment_is_left_alone() {
    let found = solve(&with_flows(
        leaf_spine(2, 2),
        &[(1, 0, 5), (1, 1, 5), (2, 0, 5)],
    ));
    assert_eq!((found.moves, found.least_moves), (0, 0));
}

/// One alone fills a link, two share another, and the third is empty.
#[test]
fn flows_share_no_link_without_need() {
    let mut problem = with_flows(leaf_spine(2, 3), &[(1, 0, 300), (1, 1, 150), (1, 1, 150)]);
    let found = solve(&problem);
    assert_eq!(
        (found.after.over_mean, found.moves, found.levelling),
        (1.5, 1, 1)
    );
    assert!(found.proven && found.least_moves == 0);
    problem.least_gain = 0.5;
    assert_eq!(solve(&problem).moves, 0);
}

#[test]
fn large_gain_justifies_no_small_move() {
    let little = [(14, 0, 50), (14, 0, 50), (14, 1, 49), (14, 1, 49)];
    let solved = |flows: &[(usize, usize, u64)]| {
        let mut problem = with_flows(leaf_spine(4, 2), flows);
        // The pair of the third leaf and the fourth.
        problem
            .flows
            .iter_mut()
            .skip(2)
            .for_each(|flow| flow.pair = 11);
        solve(&Problem {
            least_gain: 0.1,
            ..problem
        })
    };
    let both = [&[(1, 0, 50), (1, 0, 50)], &little[..]].concat();
    let found = solved(&both);
    assert_eq!(
        (found.moves, found.ways[2..].to_vec()),
        (1, vec![0, 0, 1, 1])
    );
    // Dropped goals are not reported as met.
    assert!(found.gap > 0.0 && found.gap < 0.1, "{found:?}");
}

/// A flow that must leave takes the emptiest path, and others make room as if it had been there.
#[test]
fn flow_without_path_gets_one() {
    let mut problem = with_flows(
        leaf_spine(2, 3),
        &[(1, 0, 9), (1, 1, 9), (1, 0, 9), (1, 0, 1)],
    );
    problem.flows[2].homeless = true;
    problem.flows[3].homeless = true;
    let found = solve(&problem);
    assert_eq!((found.ways[2], found.moves, found.least_moves), (2, 2, 2));
    assert!(found.proven, "{found:?}");
}

#[test]
fn fixed_load_is_avoided() {
    let mut problem = with_flows(leaf_spine(2, 2), &[(1, 0, 4), (1, 0, 4), (1, 1, 4)]);
    problem.base[0] = 8;
    let found = solve(&problem);
    assert_eq!((found.ways, found.moves), (vec![1, 0, 1], 1));
}

/// 32 leaves of 32 hosts, 64 spines, 8192 flows that were hashed.
#[test]
fn large_fabric_reaches_its_bound() {
    let (leaves, spines, mut rng) = (32, 64, SplitMix64::new(1));
    let flow = |nth: usize, rng: &mut SplitMix64| {
        let from = nth % leaves;
        let to = (from + 1 + rng.below(leaves - 1)) % leaves;
        (from * leaves + to, rng.below(spines), 1_000_000)
    };
    let flows: Vec<_> = (0..8192).map(|nth| flow(nth, &mut rng)).collect();
    let found = solve(&with_flows(leaf_spine(leaves, spines), &flows));
    assert!(
        found.before.over_mean > 2.0 && found.gap < 1e-9,
        "{:?} {}",
        found.before,
        found.gap
    );
    let more = found.moves as f64 / found.least_moves as f64;
    assert!(
        more < 1.25,
        "{} moves, at least {}",
        found.moves,
        found.least_moves
    );
}

/// The same with other sizes: how far it stays from what no assignment gets below.
fn uneven_gap(work: Work, size: impl Fn(&mut SplitMix64) -> u64) -> f64 {
    let (leaves, spines, mut rng) = (32, 64, SplitMix64::new(2));
    let flow = |nth: usize, rng: &mut SplitMix64| {
        let from = nth % leaves;
        let to = (from + 1 + rng.below(leaves - 1)) % leaves;
        let bytes = size(rng);
        (from * leaves + to, rng.below(spines), bytes)
    };
    let flows: Vec<_> = (0..8192).map(|nth| flow(nth, &mut rng)).collect();
    let mut problem = with_flows(leaf_spine(leaves, spines), &flows);
    problem.work = work;
    let found = solve(&problem);
    assert!(found.least_moves <= found.moves && found.bound.fullest <= found.after.fullest);
    found.gap
}

#[test]
fn uneven_flows_approach_bound() {
    let whole = |rng: &mut SplitMix64| 1_000_000 * (1 + rng.below(8) as u64);
    let any = |rng: &mut SplitMix64| 1_000_000 + rng.below(7_000_000) as u64;
    let at_once = uneven_gap(Work::default(), whole);
    assert!(at_once < 0.16, "{at_once}");
    let at_leisure = [
        uneven_gap(Work::at_leisure(), whole),
        uneven_gap(Work::at_leisure(), any),
    ];
    assert!(at_leisure.iter().all(|gap| *gap < 0.07), "{at_leisure:?}");
}

/// Sixteen on three hops would be 5.3 on each, and flows of size two make six of that.
#[test]
fn bound_accounts_for_whole_flows() {
    let sizes = [4, 4, 2, 2, 2, 2];
    let mut problem = with_flows(leaf_spine(2, 3), &sizes.map(|size| (1, 0, size)));
    problem.work.exact = 0;
    let found = solve(&problem);
    let [bound, after] = [found.bound, found.after].map(|it| it.over_mean);
    assert_eq!((found.gap, bound, after), (0.0, 1.125, 1.125));
}
