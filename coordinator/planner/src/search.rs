//! The search for the best assignment of flows to ways.
//!
//! One assignment beats another when, of the flows for which the two differ, the slowest is faster.
//! So a flow that nothing can help hides nobody else's gain, and nobody is slowed down to where
//! those are who gain by it. Only the gains of the flows concerned count, but every flow's loss does.
//! Differences below what the policy calls worthwhile are none.

use std::collections::BTreeSet;

use reweave_common::plan::LostBecause;
use reweave_common::units::Rate;

use crate::maxmin::Share;
use crate::model::Model;

/// An assignment and what it brings.
#[derive(Debug, Clone)]
pub(crate) struct Weighed {
    /// By flow: which of its ways it takes; 0 is the present one.
    pub(crate) choice: Vec<usize>,
    pub(crate) shares: Vec<Share>,
    score: Score,
    /// Whether it beat the present, and the best of those with fewer moves.
    improves: bool,
}

impl Weighed {
    pub(crate) fn moved(&self) -> impl Iterator<Item = usize> {
        let choice = self.choice.iter().enumerate();
        choice.filter(|(_, way)| **way != 0).map(|(flow, _)| flow)
    }

    /// Of several that improve, or several that do not, the one that is faster from the slowest up.
    fn rank(&self) -> (bool, &[u64]) {
        (self.improves, &self.score.in_order)
    }
}

pub(crate) struct Answer {
    pub(crate) present: Weighed,
    pub(crate) best: Weighed,
    /// The best of each other number of moves, and why it is not the best of all.
    pub(crate) lost: Vec<(Weighed, LostBecause)>,
}

impl Answer {
    pub(crate) fn is_a_change(&self) -> bool {
        self.best.moved().next().is_some()
    }
}

/// Tries all assignments, fewest moves first, while the policy's count of evaluations lasts; from
/// there on it improves the best one flow by flow. Of equals the first in order is taken.
pub(crate) fn search(model: &Model<'_>, concerned: &BTreeSet<usize>) -> Answer {
    let mut search = Search::new(model, concerned);
    let levels = search.level_by_level();
    let Search { present, best, .. } = search;
    let mut others = levels;
    others.retain(|level| level.choice != best.choice);
    let reasons: Vec<_> = others.iter().map(|other| why_lost(other, &best)).collect();
    let lost = others.into_iter().zip(reasons).collect();
    Answer {
        present,
        best,
        lost,
    }
}

fn why_lost(other: &Weighed, best: &Weighed) -> LostBecause {
    let more_moves = other.moved().count() > best.moved().count();
    if more_moves && other.score.in_order >= best.score.in_order {
        LostBecause::MoreMoves
    } else {
        LostBecause::Slower
    }
}

struct Search<'m> {
    model: &'m Model<'m>,
    concerned: &'m BTreeSet<usize>,
    /// The flows that have other ways.
    movable: Vec<usize>,
    present: Weighed,
    best: Weighed,
    /// How many more assignments may be evaluated.
    left: usize,
}

impl<'m> Search<'m> {
    fn new(model: &'m Model<'m>, concerned: &'m BTreeSet<usize>) -> Self {
        let choice = vec![0; model.flows.len()];
        let shares = model.shares(&choice);
        let score = Score::of(shares.iter().map(|share| share.rate));
        let present = Weighed {
            choice,
            shares,
            score,
            improves: false,
        };
        let movable = (0..model.flows.len()).filter(|&flow| model.flows[flow].ways.len() > 1);
        Self {
            model,
            concerned,
            movable: movable.collect(),
            best: present.clone(),
            present,
            left: model.policy().most_evaluations,
        }
    }

    /// Finds the best, and tells the best of each number of moves that was tried.
    fn level_by_level(&mut self) -> Vec<Weighed> {
        let (ceiling, mut levels) = (self.ceiling(), vec![self.present.clone()]);
        for moves in 1..=self.movable.len() {
            let settled = self.best.score.in_order >= ceiling;
            // Half of what is left is kept for climbing.
            if self.assignments_with(moves) > self.left / 2 {
                if !settled {
                    self.climb();
                }
                break;
            }
            let level = self.best_with(moves);
            levels.extend(level.clone());
            if let Some(better) = level.filter(|level| level.improves) {
                self.best = better;
            }
            // One level more than needed, to show what a further move would not have bought.
            if settled {
                break;
            }
        }
        levels
    }

    /// Rates from the slowest up that no assignment exceeds.
    fn ceiling(&self) -> Vec<u64> {
        let limit = |flow: usize| {
            let bystander = !self.concerned.contains(&flow);
            bystander.then(|| self.present.shares[flow].rate)
        };
        let limits: Vec<_> = (0..self.model.flows.len()).map(limit).collect();
        Score::of(self.model.ceiling(&limits).iter().map(|share| share.rate)).in_order
    }

    /// How many assignments move exactly so many flows: the elementary symmetric polynomial of the
    /// numbers of ways.
    fn assignments_with(&self, moves: usize) -> usize {
        let mut counts = vec![0usize; moves + 1];
        counts[0] = 1;
        for &flow in &self.movable {
            let others = self.model.flows[flow].ways.len() - 1;
            for moved in (1..=moves).rev() {
                let more = counts[moved - 1].saturating_mul(others);
                counts[moved] = counts[moved].saturating_add(more);
            }
        }
        counts[moves]
    }

    fn best_with(&mut self, moves: usize) -> Option<Weighed> {
        let mut best = None;
        self.try_all(0, moves, &mut self.present.choice.clone(), &mut best);
        best
    }

    /// Moves so many of the movable flows from the `next`-th on, in all ways.
    fn try_all(
        &mut self,
        next: usize,
        moves: usize,
        choice: &mut Vec<usize>,
        best: &mut Option<Weighed>,
    ) {
        if moves == 0 {
            return self.try_one(choice.clone(), best);
        }
        for place in next..self.movable.len() {
            let flow = self.movable[place];
            for way in 1..self.model.flows[flow].ways.len() {
                choice[flow] = way;
                self.try_all(place + 1, moves - 1, choice, best);
            }
            choice[flow] = 0;
        }
    }

    fn try_one(&mut self, choice: Vec<usize>, best: &mut Option<Weighed>) {
        self.left = self.left.saturating_sub(1);
        let tried = self.weigh(choice);
        if best.as_ref().is_none_or(|best| tried.rank() > best.rank()) {
            *best = Some(tried);
        }
    }

    /// Gives one flow after another the way that helps most, round and round while it helps. Those
    /// concerned go first: the count may run out.
    fn climb(&mut self) {
        let mut flows = self.movable.clone();
        flows.sort_by_key(|flow| !self.concerned.contains(flow));
        let mut still = 0;
        for flow in flows.iter().copied().cycle() {
            let better = self.best_way_for(flow).filter(|next| next.improves);
            still = if better.is_some() { 0 } else { still + 1 };
            self.best = better.unwrap_or(self.best.clone());
            if still == flows.len() || self.left == 0 {
                break;
            }
        }
        self.take_back_idle_moves();
    }

    fn best_way_for(&mut self, flow: usize) -> Option<Weighed> {
        let mut best = None;
        for way in 0..self.model.flows[flow].ways.len() {
            if self.left > 0 && way != self.best.choice[flow] {
                self.try_one(self.best_with_way(flow, way), &mut best);
            }
        }
        best
    }

    /// Takes back each move that a later one made needless.
    fn take_back_idle_moves(&mut self) {
        for flow in self.best.moved().collect::<Vec<_>>() {
            let without = self.weigh(self.best_with_way(flow, 0));
            if !self.beats(&self.best.score, &without.score) {
                self.best = without;
            }
        }
    }

    fn best_with_way(&self, flow: usize, way: usize) -> Vec<usize> {
        let mut choice = self.best.choice.clone();
        choice[flow] = way;
        choice
    }

    fn weigh(&self, choice: Vec<usize>) -> Weighed {
        let shares = self.model.shares(&choice);
        let counted = |(flow, share): (usize, &Share)| {
            let now = self.present.shares[flow].rate;
            if self.concerned.contains(&flow) {
                share.rate
            } else {
                share.rate.min(now)
            }
        };
        let score = Score::of(shares.iter().enumerate().map(counted));
        let rivals = [&self.present, &self.best];
        let improves = rivals.iter().all(|rival| self.beats(&score, &rival.score));
        Weighed {
            choice,
            shares,
            score,
            improves,
        }
    }

    fn beats(&self, one: &Score, other: &Score) -> bool {
        one.beats(other, self.model.policy().least_gain)
    }
}

/// Rates to ten significant bits: they are whole bits per second, and the crumbs that are left over
/// when a hop is shared must not decide.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Score {
    by_flow: Vec<u64>,
    /// From the slowest up.
    in_order: Vec<u64>,
}

impl Score {
    const SIGNIFICANT_BITS: u32 = 10;

    fn of(rates: impl Iterator<Item = Rate>) -> Self {
        let by_flow: Vec<_> = rates.map(|rate| Self::coarse(rate.bits_per_s())).collect();
        let mut in_order = by_flow.clone();
        in_order.sort_unstable();
        Self { by_flow, in_order }
    }

    fn coarse(rate: u64) -> u64 {
        let crumbs = (u64::BITS - rate.leading_zeros()).saturating_sub(Self::SIGNIFICANT_BITS);
        let half = (1 << crumbs) >> 1;
        (rate.saturating_add(half) >> crumbs) << crumbs
    }

    fn beats(&self, other: &Self, least_gain: f64) -> bool {
        let faster = |a: u64, b: u64| a as f64 > b as f64 * (1.0 + least_gain);
        let pairs = self.by_flow.iter().zip(&other.by_flow);
        let pairs = pairs.map(|(&a, &b)| (a, b));
        let differing = pairs.filter(|&(a, b)| faster(a, b) || faster(b, a));
        let slowest = differing.reduce(|(a, b), (c, d)| (a.min(c), b.min(d)));
        slowest.is_some_and(|(a, b)| faster(a, b))
    }
}
