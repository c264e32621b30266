//! Assigns flows to paths: the peak load of equivalent links is minimal, with the fewest moves.
//!
//! A *pool* is a set of hops of which certain flows must cross one, whichever path they take: the uplinks of one leaf,
//! the links into another. Flows that can use only a part of the hops still belong to one pool. The total load of a
//! pool over its total capacity is its mean, which no choice of paths changes. So the emptier its fullest hop, the
//! lower its max/mean. Assignments are compared by the fullest hop of the worst pool, on which all flows wait, then by
//! that of the next pool. So a lightly loaded pool may become less even for the sake of another. Of equals, fewer moves
//! are better. A pool with too little to gain is left unchanged.
//!
//! Below the peak of a pool, flows may share other hops needlessly. A last step moves flows that relieve such hops
//! enough.

mod bound;
mod exact;
mod level;
mod repair;
mod state;
#[cfg(test)]
mod tests;
mod ways;

use std::borrow::Cow;

use bound::Pool;
use exact::Score;
use state::State;
pub use ways::PathSet;

/// Flows on hops. Hops, pairs and paths are indices into these lists.
#[derive(Debug, Clone, Default)]
pub struct Problem {
    /// Capacity of each hop.
    pub capacities: Vec<f64>,
    /// Immovable load of each hop.
    pub base: Vec<u64>,
    /// Paths of the flows of each pair.
    pub pairs: Vec<PathSet>,
    pub flows: Vec<Flow>,
    /// Load over capacity below which a hop is as good as empty.
    pub enough: f64,
    /// The part by which max/mean of a pool, or the fullest that a move touches, must fall to be worth it.
    pub least_gain: f64,
    pub work: Work,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    pub pair: usize,
    /// Index of the present path.
    pub way: usize,
    pub weight: u64,
    /// The flow has none of these paths yet: any choice is a move, and `way` has no meaning.
    pub homeless: bool,
}

/// Work limits, in units that are the same on every machine.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    /// Nodes of the exact search.
    pub exact: usize,
    /// Maximum number of paths weighed while repairing.
    pub repair: usize,
    /// The same, to bring many flows of uneven sizes closer to their bound than that did.
    pub closer: usize,
}

impl Work {
    /// Returns limits for a caller that has a second.
    pub fn at_leisure() -> Self {
        Self {
            closer: 20_000_000,
            ..Self::default()
        }
    }

    /// Returns the part for each of `many` users.
    pub(crate) fn shared_by(self, many: usize) -> Self {
        Self {
            exact: self.exact / many,
            repair: self.repair / many,
            closer: self.closer / many,
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

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Solution {
    /// Path of each flow.
    pub ways: Vec<usize>,
    pub moves: usize,
    /// Number of moves that do not lower a pool's peak, but reduce sharing.
    pub levelling: usize,
    /// No assignment that is as good moves fewer.
    pub least_moves: usize,
    /// Peaks before, after, and as the lower bound.
    pub before: Peak,
    pub after: Peak,
    pub bound: Peak,
    /// Upper bound on how far the fullest hop exceeds the necessary value.
    pub gap: f64,
    /// Whether all assignments were searched, or no other can gain enough.
    pub proven: bool,
}

/// The worst over the pools: what crosses none of them has no choice, and counts for nothing here.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Peak {
    /// Load over capacity of the fullest hop.
    pub fullest: f64,
    /// The largest max/mean.
    pub over_mean: f64,
}

impl Default for Peak {
    fn default() -> Self {
        Self {
            fullest: 0.0,
            over_mean: 1.0,
        }
    }
}

impl Peak {
    /// The worse of both.
    pub fn max(self, other: Self) -> Self {
        Self {
            fullest: self.fullest.max(other.fullest),
            over_mean: self.over_mean.max(other.over_mean),
        }
    }

    /// Returns by what share the fullest hop exceeds that of a bound.
    pub fn over(self, bound: Self) -> f64 {
        if bound.fullest > 0.0 {
            self.fullest / bound.fullest - 1.0
        } else {
            0.0
        }
    }

    fn of(pool: &Pool, fullest: f64) -> Self {
        Self {
            fullest,
            over_mean: fullest / pool.mean,
        }
    }
}

/// The best assignment, as far as the work allows.
pub fn solve(problem: &Problem) -> Solution {
    let seated = &*seated(problem);
    let mut pools = bound::pools(seated);
    let before = State::new(seated, &pools).peaks();
    for (pool, &before) in pools.iter_mut().zip(&before) {
        if 1.0 - pool.bound / before <= seated.least_gain {
            pool.goal = before;
        }
    }
    let found = search(seated, &mut pools, &before);
    let mut state = State::new(seated, &pools);
    state.take(&found.ways);
    level::level(&mut state);
    let moves = state.moves();
    Solution {
        ways: state.ways().to_vec(),
        moves: moves + homeless(problem),
        levelling: moves.saturating_sub(found.moves),
        least_moves: found.least_moves + homeless(problem),
        ..figures(&pools, &state, &before, found.proven)
    }
}

/// Returns the present assignment, with the lower bound.
pub fn as_is(problem: &Problem) -> Solution {
    let seated = &*seated(problem);
    let pools = bound::pools(seated);
    let state = State::new(seated, &pools);
    figures(&pools, &state, &state.peaks(), false)
}

fn homeless(problem: &Problem) -> usize {
    problem.flows.iter().filter(|flow| flow.homeless).count()
}

/// Gives each flow without a path the emptiest one, largest flow first, as its present path.
fn seated(problem: &Problem) -> Cow<'_, Problem> {
    let (mut waiting, there): (Vec<_>, Vec<_>) =
        (0..problem.flows.len()).partition(|&flow| problem.flows[flow].homeless);
    if waiting.is_empty() {
        return Cow::Borrowed(problem);
    }
    waiting.sort_by_key(|&flow| (u64::MAX - problem.flows[flow].weight, flow));
    let (mut seated, mut loads) = (problem.clone(), problem.base.clone());
    let add = |flow: &Flow, loads: &mut [u64]| {
        let way = &problem.pairs[flow.pair][flow.way];
        way.iter().for_each(|&hop| loads[hop] += flow.weight);
    };
    there
        .iter()
        .for_each(|&flow| add(&problem.flows[flow], &mut loads));
    for flow in waiting {
        seated.flows[flow].way = emptiest(problem, &loads, problem.flows[flow].pair);
        add(&seated.flows[flow], &mut loads);
    }
    Cow::Owned(seated)
}

fn emptiest(problem: &Problem, loads: &[u64], pair: usize) -> usize {
    let ways = &problem.pairs[pair];
    let fullness = |way: usize| {
        let hops = ways[way].iter();
        let fullness = hops.map(|&hop| loads[hop] as f64 / problem.capacities[hop]);
        fullness.fold(0.0, f64::max)
    };
    let emptier = |a: &usize, b: &usize| fullness(*a).total_cmp(&fullness(*b));
    (0..ways.len()).min_by(emptier).unwrap_or(0)
}

struct SearchResult {
    ways: Vec<usize>,
    moves: usize,
    least_moves: usize,
    proven: bool,
}

/// Searches an assignment that meets the goals of the pools. Goals that bring too little are dropped, with the moves
/// that served only them.
fn search(problem: &Problem, pools: &mut [Pool], before: &[f64]) -> SearchResult {
    let mut ways = repaired(problem, pools);
    loop {
        let mut state = State::new(problem, pools);
        if is_better(&ways, &mut state) {
            state.take(&ways);
        }
        repair::take_back(&mut state);
        let least_moves = bound::least_moves(problem, &state);
        let met = |(pool, peak): (&Pool, f64)| is_at(peak, pool.goal);
        let all_met = pools.iter().zip(state.peaks()).all(met);
        let mut proven = all_met && state.moves() == least_moves;
        if !proven {
            let (best, all) = exact::improve(problem, pools, &state);
            state.take(&best);
            proven = all;
        }
        let (moves, after) = (state.moves(), state.peaks());
        ways = state.ways().to_vec();
        if !give_up(pools, before, &after, problem.least_gain) {
            let least_moves = if proven { moves } else { least_moves };
            return SearchResult {
                ways,
                moves,
                least_moves,
                proven,
            };
        }
    }
}

fn repaired(problem: &Problem, pools: &[Pool]) -> Vec<usize> {
    let mut state = State::new(problem, pools);
    repair::repair(&mut state);
    state.ways().to_vec()
}

/// Than where all flows are now.
fn is_better(ways: &[usize], present: &mut State<'_>) -> bool {
    let score = |state: &State<'_>| Score::new(state.peaks(), 0);
    let (now, home) = (score(present), present.ways().to_vec());
    present.take(ways);
    let then = score(present);
    present.take(&home);
    then < now
}

/// Whether any pool gains, but too little for a move.
fn give_up(pools: &mut [Pool], before: &[f64], after: &[f64], least_gain: f64) -> bool {
    let mut any = false;
    for ((pool, before), after) in pools.iter_mut().zip(before).zip(after) {
        let gain = 1.0 - after / before;
        if gain > 0.0 && gain <= least_gain {
            pool.goal = *before;
            any = true;
        }
    }
    any
}

fn figures(pools: &[Pool], state: &State<'_>, before: &[f64], proven: bool) -> Solution {
    let worst = |peaks: &mut dyn Iterator<Item = Peak>| peaks.fold(Peak::default(), Peak::max);
    let fullest = |pool: &Pool| pool.fullest(|hop| state.fullness(hop)).max(pool.bound);
    // After a complete search, no assignment is below the result, except for dropped goals.
    let is_least = |pool: &Pool| proven && is_at(pool.goal, pool.bound);
    let after = worst(&mut pools.iter().map(|pool| Peak::of(pool, fullest(pool))));
    let mut bound = worst(&mut pools.iter().map(|pool| Peak::of(pool, pool.bound)));
    let worst_pool = pools
        .iter()
        .max_by(|a, b| fullest(a).total_cmp(&fullest(b)));
    if worst_pool.is_some_and(is_least) {
        bound.fullest = after.fullest;
    }
    Solution {
        before: worst(
            &mut pools
                .iter()
                .zip(before)
                .map(|(pool, &peak)| Peak::of(pool, peak)),
        ),
        after,
        bound,
        gap: after.over(bound),
        proven,
        ..Solution::default()
    }
}

/// Whether a value equals a bound up to rounding.
fn is_at(value: f64, bound: f64) -> bool {
    value <= within(bound)
}

fn within(bound: f64) -> f64 {
    bound * (1.0 + 1e-9)
}
