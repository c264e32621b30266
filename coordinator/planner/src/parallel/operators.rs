//! The search for splits of operators.

use std::collections::BTreeSet;

use reweave_common::ids::Rank;
use reweave_common::iteration::Iteration;
use reweave_common::timings::Timings;
use reweave_common::units::Bytes;

use crate::dice::Dice;
use crate::workload::job::operators::{Model, Split, timing};

/// What is searched, and how long.
#[derive(Debug, Clone, Copy)]
pub struct Search<'s> {
    pub model: &'s Model,
    pub timings: &'s Timings,
    pub servers: usize,
    /// Of a server; no limit where there is no figure.
    pub memory: Option<Bytes>,
    pub seed: u64,
    /// How many changes are simulated at most.
    pub tries: u32,
}

/// The best splits that were met.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    pub splits: Vec<Split>,
    pub ms: f64,
    pub tried: u32,
}

/// A change that costs this part of an iteration more is taken once in e times.
const WARMTH: f64 = 0.004;
/// So many changes are thought of for each that is simulated: most cannot be.
const THOUGHTS: u32 = 16;

impl Search<'_> {
    /// What each server must hold.
    pub fn memory(&self, splits: &[Split]) -> Vec<Bytes> {
        let mut held = vec![Bytes::ZERO; self.servers];
        for (operator, split) in self.model.operators.iter().zip(splits) {
            let timing = timing(self.timings, &operator.timing, split.len() as u32);
            for rank in split {
                held[rank.index()] += timing.map_or(Bytes::ZERO, |timing| timing.memory);
            }
        }
        held
    }

    /// Whether no server holds more than it can.
    pub fn fits(&self, splits: &[Split]) -> bool {
        let most = self.memory(splits).into_iter().max();
        self.memory
            .is_none_or(|memory| most.is_none_or(|most| most <= memory))
    }

    /// From these splits to better ones. `time` gives the milliseconds of an iteration.
    pub fn improve<E>(
        &self,
        start: Vec<Split>,
        time: &mut dyn FnMut(&Iteration) -> Result<f64, E>,
    ) -> Result<Option<Found>, E> {
        let Some(iteration) = self.iteration(&start) else {
            return Ok(None);
        };
        let ms = time(&iteration)?;
        let mut best = Found {
            splits: start.clone(),
            ms,
            tried: 1,
        };
        let (mut now, mut dice) = ((start, ms), Dice::new(self.seed));
        let mut thoughts = self.tries.saturating_mul(THOUGHTS);
        let mut bettered = 0;
        while best.tried < self.tries.min(bettered + self.patience()) && thoughts > 0 {
            thoughts -= 1;
            let luck = dice.part();
            let patience = now.1 * (1.0 - WARMTH * libm::log(luck));
            let Some((splits, iteration)) = self.change(&now.0, patience, &mut dice) else {
                continue;
            };
            best.tried += 1;
            let ms = time(&iteration)?;
            if ms <= patience {
                now = (splits, ms);
            }
            if now.1 < best.ms {
                best.splits.clone_from(&now.0);
                best.ms = now.1;
                bettered = best.tried;
            }
        }
        Ok(Some(best))
    }

    /// So many changes in a row may be for nothing.
    fn patience(&self) -> u32 {
        (self.tries / 2).max(10)
    }

    fn iteration(&self, splits: &[Split]) -> Option<Iteration> {
        self.model
            .iteration(self.timings, splits, self.servers)
            .ok()
    }

    /// Another way to split, unless it cannot be or computing alone would last too long.
    fn change(
        &self,
        splits: &[Split],
        patience: f64,
        dice: &mut Dice,
    ) -> Option<(Vec<Split>, Iteration)> {
        let mut changed = splits.to_vec();
        self.mutate(&mut changed, dice);
        if changed == splits || !self.fits(&changed) {
            return None;
        }
        let iteration = self.iteration(&changed)?;
        let computing = iteration
            .compute_times()
            .into_iter()
            .max()
            .unwrap_or_default();
        (computing.as_secs_f64() * 1e3 <= patience).then_some((changed, iteration))
    }

    /// One operator, or a few in a row.
    fn mutate(&self, splits: &mut [Split], dice: &mut Dice) {
        let first = dice.below(splits.len());
        let length = match dice.below(4) {
            0 | 1 => 1,
            2 => 2 + dice.below(6),
            _ => 1 + dice.below(splits.len()),
        };
        let run = first..(first + length).min(splits.len());
        match dice.below(6) {
            0 => self.follow(splits, run, dice),
            1 => self.turn(splits, run, dice),
            2 | 3 => self.halve_two(splits, dice),
            _ => self.resize(splits, run, dice),
        }
    }

    /// Two operators that each do with half of the servers: the one takes those that the other
    /// leaves, as either alone would only load half of them more.
    fn halve_two(&self, splits: &mut [Split], dice: &mut Dice) {
        let half = self.servers / 2;
        let [first, second] = [0, 1].map(|_| dice.below(splits.len()));
        if half == 0 || first == second || !self.can(first, half) || !self.can(second, half) {
            return;
        }
        for (nth, offset) in [(first, 0), (second, 1)] {
            splits[nth] = (0..half)
                .map(|part| Rank::from_index(2 * part + offset))
                .collect();
        }
    }

    /// Where one of the operators that they read runs.
    fn follow(&self, splits: &mut [Split], run: std::ops::Range<usize>, dice: &mut Dice) {
        for nth in run {
            let inputs = &self.model.operators[nth].inputs;
            if !inputs.is_empty() {
                let input = inputs[dice.below(inputs.len())];
                if self.can(nth, splits[input].len()) {
                    splits[nth] = splits[input].clone();
                }
            }
        }
    }

    /// As many servers as before, but others.
    fn turn(&self, splits: &mut [Split], run: std::ops::Range<usize>, dice: &mut Dice) {
        let by = 1 + dice.below(self.servers);
        for rank in splits[run].iter_mut().flatten() {
            *rank = Rank::from_index((rank.index() + by) % self.servers);
        }
    }

    /// More or fewer servers, side by side or spread.
    fn resize(&self, splits: &mut [Split], run: std::ops::Range<usize>, dice: &mut Dice) {
        let kind = &self.model.operators[run.start].timing;
        let measured = self.timings.splits(kind).map(|(parts, _)| parts as usize);
        let sizes: BTreeSet<_> = measured.chain([self.servers]).collect();
        let sizes: Vec<_> = sizes.into_iter().filter(|&it| it <= self.servers).collect();
        if sizes.is_empty() {
            return;
        }
        let parts = sizes[dice.below(sizes.len())];
        let offset = dice.below(self.servers);
        let stride = if dice.below(2) == 0 {
            self.servers / parts
        } else {
            1
        };
        let server = |part| Rank::from_index((offset + part * stride) % self.servers);
        let split: Split = (0..parts).map(server).collect();
        for nth in run {
            if self.can(nth, parts) {
                splits[nth].clone_from(&split);
            }
        }
    }

    fn can(&self, nth: usize, parts: usize) -> bool {
        let kind = &self.model.operators[nth].timing;
        timing(self.timings, kind, parts as u32).is_some()
    }
}
