//! Takes load off hops that are fuller than they need to be, until none is.
//!
//! A flow is moved where all it comes to has room. Where there is no such place, it pushes another
//! flow out, which goes where there is room or pushes on in turn: the shortest such chain is taken.
//! Where there is none either, the hop is made less full as far as that helps.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::bound::Pool;
use super::state::State;

/// What was given up while others were in its way is tried again.
const MOST_ROUNDS: usize = 4;
/// Longer chains move more flows than they are worth.
const LONGEST_CHAIN: usize = 16;
/// So many chains that lead to the same hop are followed: what each has freed differs.
const MOST_VISITS: usize = 8;
/// Flows of one size change places one by one.
const EVEN: Reach = Reach {
    chain_work: 20_000,
    hops: 1,
};
/// Of others there is room for one rarely at both ends of a way at once.
const UNEVEN: Reach = Reach {
    chain_work: 100_000,
    hops: 2,
};

/// How close to their bounds many flows of uneven sizes are brought, step by step: how close they can
/// come nobody knows, and each step is less work than all of them at once.
const CLOSER: [f64; 7] = [1.15, 1.1, 1.07, 1.05, 1.03, 1.015, 1.0];

pub(super) fn repair(state: &mut State<'_>) {
    let work = state.problem.work;
    let uneven = state.pools.iter().any(|pool| pool.uneven);
    let mut repairing = Repairing {
        left: work.repair,
        reach: EVEN,
        state,
    };
    let met = repairing.bring(CLOSER[0]);
    if uneven {
        repairing.left = work.closer;
        repairing.reach = UNEVEN;
        repairing.bring_closer(&CLOSER[usize::from(met)..]);
    }
}

struct Repairing<'s, 'p> {
    state: &'s mut State<'p>,
    left: usize,
    reach: Reach,
}

/// How far chains are followed.
#[derive(Clone, Copy)]
struct Reach {
    /// So many ways are weighed for one.
    chain_work: usize,
    /// So many hops may be too full at a time.
    hops: usize,
}

/// A chain that leaves hops too full. Few of them first, of these the shortest chain.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Open {
    hops: usize,
    steps: usize,
    nth: usize,
    over: Vec<usize>,
    chain: Vec<Step>,
}

impl Open {
    fn at(start: usize) -> Self {
        Self {
            hops: 1,
            steps: 0,
            nth: 0,
            over: vec![start],
            chain: Vec::new(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Step {
    flow: usize,
    way: usize,
}

/// What one step brings: hops that would be too full, and how full the fullest would be.
struct Effect {
    over: Vec<usize>,
    worst: f64,
}

impl Repairing<'_, '_> {
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
        for _ in 0..MOST_ROUNDS {
            self.state.hope_again(close);
            met = self.run();
            if met || self.left == 0 {
                break;
            }
        }
        self.take_back();
        met
    }

    /// The fullest of a pool's hops over its bound, in the worst pool.
    fn worst(&self) -> f64 {
        let pools = self.state.pools.iter().zip(self.state.peaks());
        let stretch = |(pool, peak): (&Pool, f64)| peak * pool.mean / pool.bound;
        pools.map(stretch).fold(1.0, f64::max)
    }

    /// Whether no hop was given up.
    fn run(&mut self) -> bool {
        let mut all = true;
        let mut over: BTreeSet<_> = self.hops().filter(|&hop| self.state.is_over(hop)).collect();
        while let Some(hop) = self.fullest(&over) {
            let steps = self.steps_from(hop);
            if steps.is_empty() {
                self.state.resign(hop);
                all = false;
            }
            for &Step { flow, way } in &steps {
                over.extend(self.state.way(flow, way));
                self.state.set(flow, way);
            }
            over.insert(hop);
            over.retain(|&hop| self.state.is_over(hop));
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
        let stretch = |hop: usize| self.state.stretch_at(hop, self.state.load(hop));
        let fuller = |a: &usize, b: &usize| stretch(*a).total_cmp(&stretch(*b)).then(b.cmp(a));
        over.iter().copied().max_by(fuller)
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
                let effect = self.effect(step, &[]);
                let better = best.is_none_or(|(worst, _)| effect.worst < worst);
                if effect.over.is_empty() && better {
                    best = Some((effect.worst, step));
                }
            }
            if let Some((_, step)) = best {
                return Some(step);
            }
        }
        None
    }

    fn other_ways(&self, flow: usize, hop: usize) -> Vec<Step> {
        let ways = &self.state.problem.pairs[self.state.problem.flows[flow].pair];
        let around = ways
            .iter()
            .enumerate()
            .filter(|(_, hops)| !hops.contains(&hop));
        around.map(|(way, _)| Step { flow, way }).collect()
    }

    /// What a step brings, if the steps of a chain have just been taken.
    fn effect(&mut self, step: Step, chain: &[Step]) -> Effect {
        self.left = self.left.saturating_sub(1);
        let state = &self.state;
        let own = state.hops_of(step.flow);
        let mut effect = Effect {
            over: Vec::new(),
            worst: 0.0,
        };
        let new = state.way(step.flow, step.way).iter();
        for &hop in new.filter(|hop| !own.contains(hop)) {
            let load = self.load_after(hop, chain) + state.weight(step.flow);
            effect.worst = effect.worst.max(state.stretch_at(hop, load));
            if !state.fits(hop, load) {
                effect.over.push(hop);
            }
        }
        effect
    }

    fn load_after(&self, hop: usize, chain: &[Step]) -> u64 {
        let state = &self.state;
        chain.iter().fold(state.load(hop), |load, step| {
            let was = state.hops_of(step.flow).contains(&hop);
            let is = state.way(step.flow, step.way).contains(&hop);
            match (was, is) {
                (true, false) => load - state.weight(step.flow),
                (false, true) => load + state.weight(step.flow),
                _ => load,
            }
        })
    }

    /// The shortest chain in which a step makes hops too full, and later ones relieve them.
    fn chain_from(&mut self, start: usize) -> Option<Vec<Step>> {
        let last = self.left.saturating_sub(self.reach.chain_work);
        let mut reached = BTreeMap::from([(vec![start], MOST_VISITS)]);
        let mut open = BinaryHeap::from([Reverse(Open::at(start))]);
        let mut opened = 0;
        while let Some(Reverse(Open {
            mut over, chain, ..
        })) = open.pop()
        {
            let hop = over.pop()?;
            for step in self.pushed_out(hop, &chain) {
                if self.left <= last {
                    return None;
                }
                let over = self.over_after(&over, step, &chain);
                let longer = || [&chain[..], &[step]].concat();
                if over.is_empty() && self.is_improving(&longer(), start) {
                    return Some(longer());
                }
                if over.is_empty() || over.len() > self.reach.hops || chain.len() >= LONGEST_CHAIN {
                    continue;
                }
                let visits = reached.entry(over.clone()).or_insert(0);
                *visits += 1;
                if *visits <= MOST_VISITS {
                    opened += 1;
                    open.push(Reverse(Open {
                        hops: over.len(),
                        steps: chain.len() + 1,
                        nth: opened,
                        over,
                        chain: longer(),
                    }));
                }
            }
        }
        None
    }

    /// The hops that are too full after one step more, of these and those that it comes to.
    fn over_after(&mut self, over: &[usize], step: Step, chain: &[Step]) -> Vec<usize> {
        let mut after = self.effect(step, chain).over;
        if !over.is_empty() {
            let longer = [chain, &[step]].concat();
            let stays = |&hop: &usize| !self.state.fits(hop, self.load_after(hop, &longer));
            after.extend(over.iter().copied().filter(stays));
            after.sort_unstable();
            after.dedup();
        }
        after
    }

    /// Steps by which a hop becomes as empty as it may be after a chain has filled it, and the first
    /// one of a chain less full.
    fn pushed_out(&self, hop: usize, chain: &[Step]) -> Vec<Step> {
        let load = self.load_after(hop, chain);
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
        let now = self.state.stretch_at(hop, self.state.load(hop));
        let mut best: Option<(f64, Step)> = None;
        for flow in self.candidates(hop) {
            let left = self.state.load(hop) - self.state.weight(flow);
            let here = self.state.stretch_at(hop, left);
            for step in self.other_ways(flow, hop) {
                let worst = self.effect(step, &[]).worst.max(here);
                let limit = best.map_or(now * (1.0 - 1e-9), |(worst, _)| worst);
                if worst < limit {
                    best = Some((worst, step));
                }
            }
        }
        best.map(|(_, step)| step)
    }

    /// Moves that later ones made needless.
    fn take_back(&mut self) {
        let moved: Vec<_> = self.state.moved().collect();
        for flow in moved {
            let home = Step {
                flow,
                way: self.state.problem.flows[flow].way,
            };
            if self.effect(home, &[]).over.is_empty() {
                self.state.set(flow, home.way);
            }
        }
    }
}
