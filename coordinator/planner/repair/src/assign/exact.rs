//! All assignments of small problems, as far as they can still be better than the best known.

use super::bound::Pool;
use super::state::State;
use super::{Flow, Problem};

/// Fullness of the fullest hops of all pools, worst first, and the number of moves; less is better.
#[derive(Debug, Clone, PartialEq, PartialOrd)]
pub(super) struct Score {
    peaks: Vec<f64>,
    moves: usize,
}

impl Score {
    pub(super) fn new(mut peaks: Vec<f64>, moves: usize) -> Self {
        peaks.sort_by(|a, b| b.total_cmp(a));
        Self { peaks, moves }
    }
}

/// More flows than these have more assignments than can be weighed.
const MAX_EXACT_FLOWS: usize = 64;

/// The best assignment that was found, and whether all were distinguished.
pub(super) fn improve(problem: &Problem, pools: &[Pool], known: &State<'_>) -> (Vec<usize>, bool) {
    if problem.flows.len() > MAX_EXACT_FLOWS {
        return (known.ways().to_vec(), false);
    }
    let mut order: Vec<_> = (0..problem.flows.len()).collect();
    order.sort_by_key(|&flow| (u64::MAX - problem.flows[flow].weight, flow));
    let mut search = Search {
        problem,
        pools,
        loads: problem.base.clone(),
        ways: known.ways().to_vec(),
        best: known.ways().to_vec(),
        score: Score::new(known.peaks(), known.moves()),
        left: problem.work.exact,
        order,
    };
    let all = search.try_from(0, 0);
    (search.best, all)
}

struct Search<'p> {
    problem: &'p Problem,
    pools: &'p [Pool],
    order: Vec<usize>,
    loads: Vec<u64>,
    ways: Vec<usize>,
    best: Vec<usize>,
    score: Score,
    left: usize,
}

impl Search<'_> {
    /// Tries all paths of the flows from this place of the order on. Returns false if the work limit was reached.
    fn try_from(&mut self, place: usize, moves: usize) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        // Loads only grow, so what is worse now stays worse.
        let score = Score::new(self.peaks(), moves);
        if score >= self.score {
            return true;
        }
        let Some(&flow) = self.order.get(place) else {
            self.best.clone_from(&self.ways);
            self.score = score;
            return true;
        };
        let Flow {
            pair,
            way: home,
            homeless,
            ..
        } = self.problem.flows[flow];
        let ways = self.problem.pairs[pair].len();
        let others = (0..ways).filter(|&way| way != home);
        [home].into_iter().chain(others).all(|way| {
            self.put(flow, way, true);
            let done = self.try_from(place + 1, moves + usize::from(way != home && !homeless));
            self.put(flow, way, false);
            done
        })
    }

    fn put(&mut self, flow: usize, way: usize, on: bool) {
        let Flow { pair, weight, .. } = self.problem.flows[flow];
        for &hop in &self.problem.pairs[pair][way] {
            let load = &mut self.loads[hop];
            *load = if on { *load + weight } else { *load - weight };
        }
        self.ways[flow] = way;
    }

    fn peaks(&self) -> Vec<f64> {
        let fullness = |hop: usize| self.loads[hop] as f64 / self.problem.capacities[hop];
        let peak = |pool: &Pool| pool.peak(fullness);
        self.pools.iter().map(peak).collect()
    }
}
