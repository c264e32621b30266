//! The search for splits of operators.

use std::collections::BTreeSet;
use std::fmt;

use reweave_common::iteration::Iteration;
use reweave_common::split_mix::SplitMix64;
use reweave_common::timings::Timings;
use reweave_common::units::Bytes;
use reweave_sim::workload::Timeline;
use reweave_sim::workload::job::operators::{Model, Split, timing};

use super::ground::{Ground, Progress, computing_ms};
use super::presets::spelled;
use super::together::{Better, Dealing, Wanted};
use super::towers::Towers;
use crate::crew;
use crate::topology::TopologyError;

/// Inputs and limits of a search.
#[derive(Debug, Clone, Copy)]
pub struct Search<'s> {
    pub model: &'s Model,
    pub timings: &'s Timings,
    pub servers: usize,
    /// Memory of a server; unlimited if unknown.
    pub memory: Option<Bytes>,
    pub seed: u64,
    /// Maximum number of changes simulated per turn; by default as many as are worth the time.
    pub tries: Option<u32>,
}

/// Default work limit per turn: links that simulations visit, and a fixed amount per proposed task.
const MAX_WORK_PER_TURN: u64 = 1 << 28;
const WORK_PER_TASK: u64 = 100;
const TRIES_RANGE: std::ops::RangeInclusive<u64> = 20..=300;

/// Reason why no split fits, and the nearest alternative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crowded {
    pub servers: usize,
    pub memory: Bytes,
    /// Memory that would be enough.
    pub enough: Bytes,
}

impl fmt::Display for Crowded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the operators do not fit into {} servers of {}; take servers of {}, or more of them",
            self.servers,
            spelled(self.memory),
            spelled(self.enough)
        )
    }
}

/// Temperature of the simulated annealing, relative to the iteration time: a change that slows the iteration by this share is
/// accepted with probability 1/e.
const ANNEALING_TEMPERATURE: f64 = 0.004;
/// Number of proposed changes per simulated one: most are infeasible.
const PROPOSALS_PER_TRY: u32 = 16;
/// Number of changes of the same split that are simulated in parallel. The first accepted one counts.
const PARALLEL_SIMULATIONS: usize = 4;

impl Dealing for Search<'_> {
    type Deal = Vec<Split>;

    fn place(&self) -> Vec<u32> {
        (0..self.servers as u32).collect()
    }

    fn iteration(&self, splits: &Vec<Split>) -> Result<Iteration, TopologyError> {
        let iteration = self.model.iteration(self.timings, splits, self.servers);
        iteration.map_err(TopologyError::Operators)
    }

    fn better(
        &self,
        from: &Vec<Split>,
        ground: &Ground<'_>,
        _: Wanted,
    ) -> Result<Better<Vec<Split>>, TopologyError> {
        let iteration = self.iteration(from)?;
        let Some(course) = TopologyError::unless_stopped(ground.course(&iteration))? else {
            return Ok(Better::nothing());
        };
        let (ms, tries) = (course.end.millis(), self.tries(&iteration, &course));
        let mut walk = Walk {
            now: (from.clone(), ms),
            best: (from.clone(), ms),
            tried: 1,
            bettered: 0,
        };
        let mut rng = SplitMix64::new(self.seed);
        let towers = Towers::of(self.model);
        let mut thoughts = tries.saturating_mul(PROPOSALS_PER_TRY);
        while walk.goes_on(tries) && thoughts > 0 {
            let (now, now_ms) = &walk.now;
            let changes = self.changes(now, *now_ms, &towers, &mut thoughts, &mut rng);
            let time = |change: Change| {
                let ms = ground.time_within(&change.iteration, change.patience_ms)?;
                Ok((change.splits, ms))
            };
            let is_taken = |timed: &Result<(_, Option<f64>), _>| !matches!(timed, Ok((_, None)));
            for timed in crew::each_until(ground.help.crew, changes, time, is_taken) {
                let Some((splits, ms)) = TopologyError::unless_stopped(timed)? else {
                    break;
                };
                walk.step(splits, ms);
            }
            if !(ground.help.go_on)(&walk.progress()) {
                break;
            }
        }
        Ok(Better {
            deals: vec![walk.best],
            all: false,
            tried: walk.tried,
            bound_ms: Some(self.bound_ms()),
        })
    }
}

/// Other splits, and how long an iteration with them may take for them to be taken.
struct Change {
    splits: Vec<Split>,
    iteration: Iteration,
    patience_ms: f64,
}

/// A walk through splits in small steps.
struct Walk {
    now: (Vec<Split>, f64),
    best: (Vec<Split>, f64),
    tried: u32,
    /// At which try the best were met.
    bettered: u32,
}

impl Walk {
    /// Whether another step is worthwhile, given the number of steps without success.
    fn goes_on(&self, tries: u32) -> bool {
        let patience = (tries / 2).max(10);
        self.tried < tries.min(self.bettered + patience)
    }

    /// Moves to other splits, unless their time exceeds the limit.
    fn step(&mut self, splits: Vec<Split>, ms: Option<f64>) {
        self.tried += 1;
        let Some(ms) = ms else {
            return;
        };
        if ms < self.best.1 {
            self.best = (splits.clone(), ms);
            self.bettered = self.tried;
        }
        self.now = (splits, ms);
    }

    fn progress(&self) -> Progress {
        Progress {
            tried: self.tried,
            best_ms: self.best.1,
        }
    }
}

impl Search<'_> {
    /// Changes take as much work as what they change, roughly.
    fn tries(&self, iteration: &Iteration, course: &Timeline) -> u32 {
        let one = course.work + WORK_PER_TASK * iteration.tasks().len() as u64;
        let most = (MAX_WORK_PER_TURN / one.max(1)).clamp(*TRIES_RANGE.start(), *TRIES_RANGE.end());
        self.tries.unwrap_or(most as u32)
    }

    /// Returns the memory that each server needs.
    pub fn memory(&self, splits: &[Split]) -> Vec<Bytes> {
        let mut held = vec![Bytes::ZERO; self.servers];
        for (nth, split) in splits.iter().enumerate() {
            for rank in split {
                held[rank.index()] += self.part(nth, split.len());
            }
        }
        held
    }

    /// Returns the memory for one part of an operator with this number of parts.
    pub(super) fn part(&self, nth: usize, parts: usize) -> Bytes {
        let kind = &self.model.operators[nth].timing;
        timing(self.timings, kind, parts as u32).map_or(Bytes::ZERO, |timing| timing.memory)
    }

    /// Whether no server holds more than it can.
    pub fn fits(&self, splits: &[Split]) -> bool {
        let most = self.memory(splits).into_iter().max();
        self.memory
            .is_none_or(|memory| most.is_none_or(|most| most <= memory))
    }

    fn changes(
        &self,
        splits: &[Split],
        ms: f64,
        towers: &Towers,
        thoughts: &mut u32,
        rng: &mut SplitMix64,
    ) -> Vec<Change> {
        let mut changes = Vec::with_capacity(PARALLEL_SIMULATIONS);
        while changes.len() < PARALLEL_SIMULATIONS && *thoughts > 0 {
            *thoughts -= 1;
            let patience_ms =
                ms * (1.0 - ANNEALING_TEMPERATURE * libm::log(rng.nonzero_fraction()));
            changes.extend(self.change(splits, patience_ms, towers, rng));
        }
        changes
    }

    /// Returns another split, unless it is impossible or its computation alone takes too long.
    fn change(
        &self,
        splits: &[Split],
        patience_ms: f64,
        towers: &Towers,
        rng: &mut SplitMix64,
    ) -> Option<Change> {
        let mut changed = splits.to_vec();
        self.mutate(&mut changed, towers, rng);
        if changed == splits || !self.fits(&changed) {
            return None;
        }
        let iteration = self.iteration(&changed).ok()?;
        (computing_ms(&iteration) <= patience_ms).then_some(Change {
            splits: changed,
            iteration,
            patience_ms,
        })
    }

    /// Over how many servers an operator can be split, the fewest first.
    pub(super) fn sizes(&self, nth: usize) -> Vec<usize> {
        let kind = &self.model.operators[nth].timing;
        let measured = self.timings.splits(kind).map(|(parts, _)| parts as usize);
        let sizes: BTreeSet<_> = measured.chain([self.servers]).collect();
        sizes
            .into_iter()
            .filter(|&parts| parts <= self.servers && self.can(nth, parts))
            .collect()
    }

    pub(super) fn can(&self, nth: usize, parts: usize) -> bool {
        let kind = &self.model.operators[nth].timing;
        timing(self.timings, kind, parts as u32).is_some()
    }
}
