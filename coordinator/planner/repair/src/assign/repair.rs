//! Moves flows off overloaded hops until there are none.
//!
//! A flow moves to a path with room. Otherwise it displaces another flow, which moves to a path with room or displaces
//! the next: the shortest such chain is taken. If there is none, the load of the hop is reduced as far as possible.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::bound::Pool;
use super::state::State;

/// Number of rounds: dropped goals are tried again after others have moved.
const MAX_ROUNDS: usize = 4;
/// Longer chains move more flows than they are worth.
const MAX_CHAIN_MOVES: usize = 16;
/// Maximum number of chains to the same hop: they free different hops.
const MAX_VISITS_PER_HOP: usize = 8;
/// Flows of one size change places one by one.
const EVEN_REACH: Reach = Reach {
    chain_work: 20_000,
    hops: 1,
};
/// Flows of uneven sizes rarely find room at both ends of a path at once.
const UNEVEN_REACH: Reach = Reach {
    chain_work: 100_000,
    hops: MAX_REACH_HOPS,
};
const MAX_REACH_HOPS: usize = 2;

/// Goals relative to the bound for many flows of uneven sizes, reached step by step: the attainable ratio is unknown,
/// and each step needs less work than all at once.
const BOUND_RATIOS: [f64; 7] = [1.15, 1.1, 1.07, 1.05, 1.03, 1.015, 1.0];

pub(super) fn repair(state: &mut State<'_>) {
    let work = state.problem.work;
    let uneven = state.pools.iter().any(|pool| pool.uneven);
    let mut repairing = Repairing {
        left: work.repair,
        reach: EVEN_REACH,
        shifted: vec![0; state.problem.capacities.len()],
        state,
    };
    let met = repairing.bring(BOUND_RATIOS[0]);
    if uneven {
        repairing.left = work.closer;
        repairing.reach = UNEVEN_REACH;
        repairing.bring_closer(&BOUND_RATIOS[usize::from(met)..]);
    }
}

struct Repairing<'s, 'p> {
    state: &'s mut State<'p>,
    left: usize,
    reach: Reach,
    /// Load that the current chain adds to or removes from each hop.
    shifted: Vec<i64>,
}

/// Limits for chains.
#[derive(Clone, Copy)]
struct Reach {
    /// Maximum number of paths that are tried for one chain.
    chain_work: usize,
    /// Maximum number of overloaded hops at a time.
    hops: usize,
}

/// A chain that leaves hops too full. Few of them first, of these the shortest chain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Open {
    hops: usize,
    steps: usize,
    nth: usize,
    over: [usize; MAX_REACH_HOPS],
    /// Last step of the chain, among all steps.
    last: Option<usize>,
}

impl Open {
    fn at(start: usize) -> Self {
        Self {
            hops: 1,
            steps: 0,
            nth: 0,
            over: key(&[start]),
            last: None,
        }
    }

    fn over(&self) -> &[usize] {
        &self.over[..self.hops]
    }
}

/// Chains share their beginnings: each step knows the one before it.
#[derive(Clone, Copy)]
struct Link {
    step: Step,
    before: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Step {
    flow: usize,
    way: usize,
}

/// Effect of a step: whether there is room for it, and the fullness of the fullest hop.
struct Effect {
    fits: bool,
    worst: f64,
}

/// Chains that begin at one hop.
struct Seeking {
    start: usize,
    /// Work that is to be left.
    last: usize,
    open: BinaryHeap<Reverse<Open>>,
    links: Vec<Link>,
    /// Number of chains that led to these hops.
    reached: BTreeMap<[usize; MAX_REACH_HOPS], usize>,
}

impl Seeking {
    fn from(start: usize, last: usize) -> Self {
        Self {
            start,
            last,
            open: BinaryHeap::from([Reverse(Open::at(start))]),
            links: Vec::new(),
            reached: BTreeMap::from([(key(&[start]), MAX_VISITS_PER_HOP)]),
        }
    }

    /// Whether chains that lead to these hops are still followed.
    fn visits(&mut self, over: &[usize]) -> bool {
        let visits = self.reached.entry(key(over)).or_default();
        *visits += 1;
        *visits <= MAX_VISITS_PER_HOP
    }

    fn open(&mut self, over: &[usize], at: &Open, step: Step) {
        let before = at.last;
        self.links.push(Link { step, before });
        self.open.push(Reverse(Open {
            hops: over.len(),
            steps: at.steps + 1,
            nth: self.links.len(),
            over: key(over),
            last: Some(self.links.len() - 1),
        }));
    }

    /// The steps that led there, from the first.
    fn chain(&self, at: &Open) -> Vec<Step> {
        let mut chain = Vec::with_capacity(at.steps + 1);
        let mut next = at.last;
        while let Some(Link { step, before }) = next.map(|place| self.links[place]) {
            chain.push(step);
            next = before;
        }
        chain.reverse();
        chain
    }
}

/// Hops that are too full, as something to be looked up without a list of its own.
fn key(over: &[usize]) -> [usize; MAX_REACH_HOPS] {
    let mut key = [usize::MAX; MAX_REACH_HOPS];
    key[..over.len()].copy_from_slice(over);
    key
}

impl<'p> Repairing<'_, 'p> {
    /// Step by step, and as close as that went.
    fn bring_closer(&mut self, steps: &[f64]) {
        let mut best = (self.worst(), self.state.ways().to_vec());
        for &close in steps {
            let met = self.bring(close);
            let worst = self.worst();
            if worst < best.0 {
                best = (worst, self.state.ways().to_vec());
            }
            if !met {
                break;
            }
        }
        self.state.take(&best.1);
        self.state.settle();
    }

    /// Whether all hops came so close to their bounds.
    fn bring(&mut self, close: f64) -> bool {
        let mut met = false;
        for _ in 0..MAX_ROUNDS {
            self.state.hope_again(close);
            met = self.run();
            if met || self.left == 0 {
                break;
            }
        }
        take_needless_back(self.state);
        met
    }

    /// The fullest of a pool's hops over its bound, in the worst pool.
    fn worst(&self) -> f64 {
        let pools = self.state.pools.iter().zip(self.state.peaks());
        let stretch = |(pool, peak): (&Pool, f64)| peak / pool.goal;
        pools.map(stretch).fold(1.0, f64::max)
    }

    /// Returns whether no goal was dropped.
    fn run(&mut self) -> bool {
        let mut all = true;
        let mut over: BTreeSet<_> = self.hops().filter(|&hop| self.state.is_over(hop)).collect();
        while let Some(hop) = self.fullest(&over) {
            let steps = self.steps_from(hop);
            if steps.is_empty() {
                self.state.resign(hop);
                all = false;
            }
            let mut touched = vec![hop];
            for &Step { flow, way } in &steps {
                touched.extend(self.state.left(flow, way));
                touched.extend(self.state.entered(flow, way));
                self.state.set(flow, way);
            }
            for hop in touched {
                if self.state.is_over(hop) {
                    over.insert(hop)
                } else {
                    over.remove(&hop)
                };
            }
            if self.left == 0 {
                return false;
            }
        }
        all
    }

    fn hops(&self) -> std::ops::Range<usize> {
        0..self.state.problem.capacities.len()
    }

    fn fullest(&self, over: &BTreeSet<usize>) -> Option<usize> {
        let fullness = |&hop: &usize| (self.state.fullness(hop), hop);
        let fuller = |a: &(f64, usize), b: &(f64, usize)| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1));
        over.iter().map(fullness).max_by(fuller).map(|(_, hop)| hop)
    }

    fn steps_from(&mut self, hop: usize) -> Vec<Step> {
        if let Some(step) = self.step_with_room(hop) {
            return vec![step];
        }
        if let Some(chain) = self.chain_from(hop) {
            return chain;
        }
        self.relieving_step(hop).into_iter().collect()
    }

    /// Those on a hop: the ones whose leaving is enough first, of these the ones that relieve other
    /// full hops too, of these the smallest.
    fn candidates(&self, hop: usize) -> Vec<usize> {
        let state = &self.state;
        let load = state.load(hop);
        let rank = |&flow: &usize| {
            let weight = state.weight(flow);
            let enough = state.fits(hop, load.saturating_sub(weight));
            let hops = state.hops_of(flow).iter();
            let relieved = hops.filter(|&&hop| state.is_over(hop)).count();
            let size = if enough { weight } else { u64::MAX - weight };
            (!enough, usize::MAX - relieved, size, flow)
        };
        let mut flows = state.on(hop).to_vec();
        flows.sort_by_key(rank);
        flows
    }

    fn step_with_room(&mut self, hop: usize) -> Option<Step> {
        for flow in self.candidates(hop) {
            let mut best: Option<(f64, Step)> = None;
            for step in self.other_ways(flow, hop) {
                let effect = self.effect(step);
                let better = best.is_none_or(|(worst, _)| effect.worst < worst);
                if effect.fits && better {
                    best = Some((effect.worst, step));
                }
            }
            if let Some((_, step)) = best {
                return Some(step);
            }
        }
        None
    }

    fn other_ways(&self, flow: usize, hop: usize) -> impl Iterator<Item = Step> + use<'p> {
        let problem = self.state.problem;
        let ways = problem.pairs[problem.flows[flow].pair].iter().enumerate();
        let around = ways.filter(move |(_, hops)| !hops.contains(&hop));
        around.map(move |(way, _)| Step { flow, way })
    }

    fn effect(&mut self, step: Step) -> Effect {
        self.left = self.left.saturating_sub(1);
        let state = &self.state;
        let mut effect = Effect {
            fits: true,
            worst: 0.0,
        };
        for hop in state.entered(step.flow, step.way) {
            let load = state.load(hop) + state.weight(step.flow);
            effect.worst = effect.worst.max(state.fullness_at(hop, load));
            effect.fits &= state.fits(hop, load);
        }
        effect
    }

    /// The shortest chain in which a step makes hops too full, and later ones relieve them.
    fn chain_from(&mut self, start: usize) -> Option<Vec<Step>> {
        let last = self.left.saturating_sub(self.reach.chain_work);
        let mut seeking = Seeking::from(start, last);
        while let Some(Reverse(at)) = seeking.open.pop() {
            let chain = seeking.chain(&at);
            self.shift(&chain, 1);
            let found = self.follow(&at, &chain, &mut seeking);
            self.shift(&chain, -1);
            if found.is_some() || self.left <= last {
                return found;
            }
        }
        None
    }

    /// Counts a chain in, or, with the other sign, out again.
    fn shift(&mut self, chain: &[Step], sign: i64) {
        for &Step { flow, way } in chain {
            let by = sign * self.state.weight(flow) as i64;
            let (left, entered) = (self.state.left(flow, way), self.state.entered(flow, way));
            left.for_each(|hop| self.shifted[hop] -= by);
            entered.for_each(|hop| self.shifted[hop] += by);
        }
    }

    /// Adds a step in all ways that relieve the last overloaded hop.
    fn follow(&mut self, at: &Open, chain: &[Step], seeking: &mut Seeking) -> Option<Vec<Step>> {
        let (&hop, others) = at.over().split_last()?;
        let mut over = Vec::new();
        for step in self.pushed_out(hop, chain) {
            if self.left <= seeking.last {
                return None;
            }
            self.over_after(others, step, &mut over);
            if over.is_empty() {
                let whole = [chain, &[step]].concat();
                if self.is_improving(&whole, seeking.start) {
                    return Some(whole);
                }
                continue;
            }
            let too_far = over.len() > self.reach.hops || chain.len() >= MAX_CHAIN_MOVES;
            if !too_far && seeking.visits(&over) {
                seeking.open(&over, at, step);
            }
        }
        None
    }

    /// Returns the overloaded hops after one more step, among these and those of the step.
    fn over_after(&mut self, others: &[usize], step: Step, over: &mut Vec<usize>) {
        self.left = self.left.saturating_sub(1);
        over.clear();
        let Step { flow, way } = step;
        let (state, weight) = (&self.state, self.state.weight(flow));
        let fits = |hop: usize, load: u64| {
            let load = load.saturating_add_signed(self.shifted[hop]);
            state.fits(hop, load)
        };
        let entered = state.entered(flow, way);
        over.extend(entered.filter(|&hop| !fits(hop, state.load(hop) + weight)));
        if others.is_empty() {
            return;
        }
        let is_left = |hop: usize| state.left(flow, way).any(|it| it == hop);
        let stays = |hop: usize| !is_left(hop) || !fits(hop, state.load(hop) - weight);
        over.extend(others.iter().copied().filter(|&hop| stays(hop)));
        over.sort_unstable();
        over.dedup();
    }

    /// Steps by which a hop becomes as empty as it may be after the chain has filled it.
    fn pushed_out(&self, hop: usize, chain: &[Step]) -> Vec<Step> {
        let load = self
            .state
            .load(hop)
            .saturating_add_signed(self.shifted[hop]);
        let in_chain = |flow: usize| chain.iter().any(|step| step.flow == flow);
        let enough =
            |&flow: &usize| !in_chain(flow) && self.state.fits(hop, load - self.state.weight(flow));
        let flows = self.state.on(hop).iter().copied().filter(enough);
        flows.flat_map(|flow| self.other_ways(flow, hop)).collect()
    }

    /// Takes the steps, looks, and takes them back.
    fn is_improving(&mut self, chain: &[Step], start: usize) -> bool {
        let state = &mut *self.state;
        let back: Vec<_> = chain
            .iter()
            .map(|step| (step.flow, state.ways()[step.flow]))
            .collect();
        let touched = chain.iter().flat_map(|step| state.way(step.flow, step.way));
        let touched: Vec<_> = touched.copied().collect();
        let before = state.load(start);
        let were_over: Vec<_> = touched.iter().map(|&hop| state.is_over(hop)).collect();
        chain.iter().for_each(|step| state.set(step.flow, step.way));
        let newly_over = |(hop, was): (&usize, &bool)| state.is_over(*hop) && !was;
        let improving =
            !touched.iter().zip(&were_over).any(newly_over) && state.load(start) < before;
        back.iter()
            .rev()
            .for_each(|&(flow, way)| state.set(flow, way));
        improving
    }

    /// The step after which the fullest of all it touches is least full, if that is less than now.
    fn relieving_step(&mut self, hop: usize) -> Option<Step> {
        let now = self.state.fullness(hop);
        let mut best: Option<(f64, Step)> = None;
        for flow in self.candidates(hop) {
            let left = self.state.load(hop) - self.state.weight(flow);
            let here = self.state.fullness_at(hop, left);
            for step in self.other_ways(flow, hop) {
                let worst = self.effect(step).worst.max(here);
                let limit = best.map_or(now * (1.0 - 1e-9), |(worst, _)| worst);
                if worst < limit {
                    best = Some((worst, step));
                }
            }
        }
        best.map(|(_, step)| step)
    }
}

/// Undoes the moves that no pool's peak needs.
pub(super) fn take_back(state: &mut State<'_>) {
    state.settle();
    take_needless_back(state);
}

fn take_needless_back(state: &mut State<'_>) {
    let moved: Vec<_> = state.moved().collect();
    for flow in moved {
        let home = state.problem.flows[flow].way;
        let has_room = |hop: usize| state.fits(hop, state.load(hop) + state.weight(flow));
        if state.entered(flow, home).all(has_room) {
            state.set(flow, home);
        }
    }
}
