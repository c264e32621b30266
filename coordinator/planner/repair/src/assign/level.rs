//! Who shares a hop for no need goes where less is, though no pool's fullest hop becomes less full.
//!
//! Of the hops that a step touches, the fullest must become so much less full that this is worth a
//! move, and no pool's peak may rise. Each such step leaves fewer hops as full as that one was, so
//! they come to an end.

use super::state::State;

/// Later rounds find what earlier ones have made room for.
const MAX_ROUNDS: usize = 8;

pub(super) fn level(state: &mut State<'_>) {
    state.settle();
    for _ in 0..MAX_ROUNDS {
        if !round(state) {
            break;
        }
    }
}

/// Those on the fullest hops first; whether any was moved.
fn round(state: &mut State<'_>) -> bool {
    let mut flows: Vec<_> = (0..state.ways().len()).collect();
    let met: Vec<_> = flows
        .iter()
        .map(|&flow| fullest_of(state, flow).0)
        .collect();
    flows.sort_by(|&a, &b| met[b].total_cmp(&met[a]).then(a.cmp(&b)));
    let emptiest = emptiest(state);
    let mut any = false;
    for flow in flows {
        if let Some(way) = worth_a_move(state, &emptiest, flow) {
            state.set(flow, way);
            any = true;
        }
    }
    any
}

/// By hop: how full the emptiest of its pool is, so that most flows need not be tried.
fn emptiest(state: &State<'_>) -> Vec<f64> {
    let mut emptiest = vec![0.0; state.problem.capacities.len()];
    for pool in state.pools {
        let fullness = pool.hops.iter().map(|&hop| state.fullness(hop));
        let least = fullness.fold(f64::INFINITY, f64::min);
        pool.hops.iter().for_each(|&hop| emptiest[hop] = least);
    }
    emptiest
}

/// How full the fullest hop of its way is, and which this is.
fn fullest_of(state: &State<'_>, flow: usize) -> (f64, usize) {
    let hops = state.hops_of(flow).iter();
    let fullness = hops.map(|&hop| (state.fullness(hop), hop));
    fullness.fold((0.0, 0), |a, b| if b.0 > a.0 { b } else { a })
}

/// The way after which the fullest hop that the step touches is least full, if that is enough less.
fn worth_a_move(state: &State<'_>, emptiest: &[f64], flow: usize) -> Option<usize> {
    let (now, fullest) = fullest_of(state, flow);
    let mut least = now * (1.0 - state.problem.least_gain) * (1.0 - 1e-9);
    if now <= state.problem.enough || emptiest[fullest] >= least {
        return None;
    }
    let mut best = None;
    for way in 0..state.problem.pairs[state.problem.flows[flow].pair].len() {
        if let Some(fullest) = fullest_after(state, flow, way, least) {
            (least, best) = (fullest, Some(way));
        }
    }
    best
}

/// None where that is not less than `most`, or a pool's peak would rise.
fn fullest_after(state: &State<'_>, flow: usize, way: usize, most: f64) -> Option<f64> {
    let (old, new) = (state.hops_of(flow), state.way(flow, way));
    let weight = state.weight(flow);
    let mut fullest = 0.0_f64;
    for (&hop, old) in new.iter().zip(old) {
        let comes = if hop == *old { 0 } else { weight };
        let load = state.load(hop) + comes;
        fullest = fullest.max(state.fullness_at(hop, load));
        if fullest >= most || !state.fits(hop, load) {
            return None;
        }
    }
    let left = state.left(flow, way);
    let left = left.map(|hop| state.fullness_at(hop, state.load(hop) - weight));
    Some(left.fold(fullest, f64::max)).filter(|fullest| *fullest < most)
}
