//! Moves flows from needlessly shared hops to emptier ones, even if no pool's fullest hop improves.
//!
//! The fullest hop that a step touches must improve enough for a move, and no pool's peak may rise. Each step reduces
//! the number of hops at that fullness, so the steps end.

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

/// Returns the fullness of the emptiest hop of each hop's pool, so that most flows need not be tried.
fn emptiest(state: &State<'_>) -> Vec<f64> {
    let mut emptiest = vec![0.0; state.problem.capacities.len()];
    for pool in state.pools {
        let fullness = pool.hops.iter().map(|&hop| state.fullness(hop));
        let least = fullness.fold(f64::INFINITY, f64::min);
        pool.hops.iter().for_each(|&hop| emptiest[hop] = least);
    }
    emptiest
}

/// Returns the fullest hop on the path of a flow, with its fullness.
fn fullest_of(state: &State<'_>, flow: usize) -> (f64, usize) {
    let hops = state.hops_of(flow).iter();
    let fullness = hops.map(|&hop| (state.fullness(hop), hop));
    fullness.fold((0.0, 0), |a, b| if b.0 > a.0 { b } else { a })
}

/// Returns the path after which the fullest touched hop is least full, if the improvement is large enough.
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

/// Returns none if the result is not below `most`, or a pool's peak would rise.
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
