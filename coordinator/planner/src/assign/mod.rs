//! Which flow takes which way: the heaviest load of links that stand for one another as low as can
//! be, by the fewest moves.
//!
//! A *pool* is a set of hops of which certain flows must cross one, whichever way they take: the
//! uplinks of one leaf, the links into another. What all its flows bring, over what all its hops
//! take, is its mean, which no choice of ways changes. An assignment is better than another when the
//! fullest hop of a pool over that mean, max/mean, is lower: in the worst pool first, then in the
//! next. Of equals, the one that moves fewer flows is better.

mod bound;
mod exact;
mod repair;
mod state;
#[cfg(test)]
mod tests;

use state::State;

/// Flows on hops. Numbers of hops, pairs and ways are places in these lists.
#[derive(Debug, Clone, Default)]
pub struct Problem {
    /// By hop: what it takes.
    pub capacities: Vec<f64>,
    /// By hop: what is on it and cannot be moved.
    pub base: Vec<u64>,
    /// By pair: the ways of its flows, each over so many hops as the others.
    pub pairs: Vec<Vec<Vec<usize>>>,
    pub flows: Vec<Flow>,
    /// Load over capacity below which a hop is as good as empty.
    pub enough: f64,
    pub work: Work,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    pub pair: usize,
    /// The way it takes now.
    pub way: usize,
    pub weight: u64,
}

/// How much may be looked at, in units that are the same on every machine.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    /// Nodes of the exact search.
    pub exact: usize,
    /// Ways weighed while repairing.
    pub repair: usize,
    /// The same, to bring many flows of uneven sizes closer to their bound than that did.
    pub closer: usize,
}

impl Work {
    /// For whoever has a second.
    pub fn at_leisure() -> Self {
        Self {
            closer: 20_000_000,
            ..Self::default()
        }
    }
}

impl Default for Work {
    fn default() -> Self {
        Self {
            exact: 300_000,
            repair: 20_000_000,
            closer: 200_000,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Solution {
    /// By flow: its way.
    pub ways: Vec<usize>,
    pub moves: usize,
    /// No assignment that is as good moves fewer.
    pub least_moves: usize,
    /// The largest max/mean over the pools: as it was, as it will be, and what nobody gets below.
    pub before: f64,
    pub after: f64,
    pub bound: f64,
    /// By how much the fullest hop of a pool exceeds what was proven to be needed there, at most.
    pub gap: f64,
    /// The largest part by which max/mean of a pool falls.
    pub gain: f64,
    /// Whether all assignments were weighed, or none can be better.
    pub proven: bool,
}

/// The best assignment, as far as the work allows.
pub fn solve(problem: &Problem) -> Solution {
    let pools = bound::pools(problem);
    let mut state = State::new(problem, &pools);
    let before = state.peaks();
    repair::repair(&mut state);
    let bounds: Vec<_> = pools.iter().map(|pool| pool.bound / pool.mean).collect();
    let least_moves = bound::least_moves(problem, &state);
    let after = state.peaks();
    let at_bound = after
        .iter()
        .zip(&bounds)
        .all(|(peak, bound)| is_at(*peak, *bound));
    let mut proven = at_bound && state.moves() == least_moves;
    if !proven {
        let (best, all) = exact::improve(problem, &pools, &state);
        state.take(&best);
        proven = all;
    }
    solution(&state, &before, &bounds, least_moves, proven)
}

fn solution(
    state: &State<'_>,
    before: &[f64],
    bounds: &[f64],
    least_moves: usize,
    proven: bool,
) -> Solution {
    let after = state.peaks();
    let gaps = after
        .iter()
        .zip(bounds)
        .map(|(peak, bound)| peak / bound - 1.0);
    let most = |peaks: &[f64]| peaks.iter().copied().fold(1.0, f64::max);
    let moves = state.moves();
    let gains = after
        .iter()
        .zip(before)
        .map(|(after, before)| 1.0 - after / before);
    Solution {
        ways: state.ways().to_vec(),
        moves,
        least_moves: if proven { moves } else { least_moves },
        before: most(before),
        after: most(&after),
        bound: if proven { most(&after) } else { most(bounds) },
        gap: if proven {
            0.0
        } else {
            gaps.fold(0.0, f64::max)
        },
        gain: gains.fold(0.0, f64::max),
        proven,
    }
}

/// As close to a bound as rounding lets it be.
fn is_at(value: f64, bound: f64) -> bool {
    value <= bound * (1.0 + 1e-9)
}
