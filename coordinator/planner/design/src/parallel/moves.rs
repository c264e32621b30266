//! Random changes of splits.

use reweave_common::ids::Rank;
use reweave_common::split_mix::SplitMix64;
use reweave_sim::workload::job::operators::{Split, timing};

use super::operators::Search;
use super::towers::Towers;

impl Search<'_> {
    /// One operator, or a few in a row, or towers that stand side by side.
    pub(super) fn mutate(&self, splits: &mut [Split], towers: &Towers, rng: &mut SplitMix64) {
        let first = rng.below(splits.len());
        let length = match rng.below(4) {
            0 | 1 => 1,
            2 => 2 + rng.below(6),
            _ => 1 + rng.below(splits.len()),
        };
        let run = first..(first + length).min(splits.len());
        match rng.below(8) {
            0 => self.follow(splits, run, rng),
            1 => self.turn(splits, run, rng),
            2 | 3 => self.halve_two(splits, rng),
            4 | 5 => self.deal_out(splits, towers, rng),
            _ => self.resize(splits, run, rng),
        }
    }

    /// Halves the servers of two operators: one takes the servers that the other leaves. Halving either alone would
    /// only increase the load of half of them.
    fn halve_two(&self, splits: &mut [Split], rng: &mut SplitMix64) {
        let half = self.servers / 2;
        let [first, second] = [0, 1].map(|_| rng.below(splits.len()));
        if half == 0 || first == second || !self.can(first, half) || !self.can(second, half) {
            return;
        }
        for (nth, offset) in [(first, 0), (second, 1)] {
            splits[nth] = (0..half)
                .map(|part| Rank::from_index(2 * part + offset))
                .collect();
        }
    }

    /// Moves operators to the servers of one that they read.
    fn follow(&self, splits: &mut [Split], run: std::ops::Range<usize>, rng: &mut SplitMix64) {
        for nth in run {
            let inputs = &self.model.operators[nth].inputs;
            if !inputs.is_empty() {
                let input = inputs[rng.below(inputs.len())];
                if self.can(nth, splits[input].len()) {
                    splits[nth] = splits[input].clone();
                }
            }
        }
    }

    /// Moves operators to other servers, without changing their number.
    fn turn(&self, splits: &mut [Split], run: std::ops::Range<usize>, rng: &mut SplitMix64) {
        let by = 1 + rng.below(self.servers);
        for rank in splits[run].iter_mut().flatten() {
            *rank = Rank::from_index((rank.index() + by) % self.servers);
        }
    }

    /// More or fewer servers, side by side or spread.
    fn resize(&self, splits: &mut [Split], run: std::ops::Range<usize>, rng: &mut SplitMix64) {
        let sizes = self.sizes(run.start);
        if sizes.is_empty() {
            return;
        }
        let parts = sizes[rng.below(sizes.len())];
        let offset = rng.below(self.servers);
        let stride = if rng.below(2) == 0 {
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

    /// Assigns parallel towers to groups of servers with equal loads. Each operator is then reduced only within its
    /// group, and only a tower without a group of its own crosses groups.
    fn deal_out(&self, splits: &mut [Split], towers: &Towers, rng: &mut SplitMix64) {
        let Some(mut side_by_side) = towers.some(rng) else {
            return;
        };
        let sizes = self.sizes(side_by_side[0][0]);
        let sizes: Vec<_> = sizes.into_iter().filter(|&it| it < self.servers).collect();
        if sizes.is_empty() {
            return;
        }
        let parts = sizes[rng.below(sizes.len())];
        let mut groups = Groups::new(self.servers, parts, rng.below(2) == 0);
        rng.shuffle(&mut side_by_side);
        if rng.below(2) == 0 {
            // The rest stays in place.
            let whole = side_by_side.len() / groups.loads.len() * groups.loads.len();
            side_by_side.truncate(if whole == 0 {
                side_by_side.len()
            } else {
                whole
            });
        }
        let able = |tower: &Vec<usize>| tower.iter().all(|&nth| self.can(nth, parts));
        side_by_side.retain(able);
        let cost = |nth: usize| self.cost(nth, parts);
        let total: f64 = side_by_side.iter().flatten().map(|&nth| cost(nth)).sum();
        let even = total / groups.loads.len() as f64 * (1.0 + GROUP_OVERLOAD);
        for tower in side_by_side {
            let mut group = groups.emptiest();
            for nth in tower {
                if groups.loads[group] + cost(nth) > even {
                    group = groups.emptiest();
                }
                groups.loads[group] += cost(nth);
                splits[nth] = groups.servers(group);
            }
        }
    }

    /// Returns the computation time of one part of an operator.
    fn cost(&self, nth: usize, parts: usize) -> f64 {
        let kind = &self.model.operators[nth].timing;
        let time = timing(self.timings, kind, parts as u32);
        time.map_or(0.0, |it| (it.forward + it.backward).as_secs_f64())
    }
}

/// A group takes so much more than its part before the next one is asked.
const GROUP_OVERLOAD: f64 = 0.01;

/// Servers in groups of the same size, and what each computes.
struct Groups {
    parts: usize,
    /// Whether the servers of a group stand side by side; else they are spread.
    close: bool,
    loads: Vec<f64>,
}

impl Groups {
    fn new(servers: usize, parts: usize, close: bool) -> Self {
        Self {
            parts,
            close,
            loads: vec![0.0; servers / parts],
        }
    }

    fn emptiest(&self) -> usize {
        let groups = 0..self.loads.len();
        let emptiest = groups.min_by(|&a, &b| self.loads[a].total_cmp(&self.loads[b]));
        emptiest.unwrap_or(0)
    }

    fn servers(&self, group: usize) -> Split {
        let servers = (0..self.parts).map(|part| {
            let server = if self.close {
                group * self.parts + part
            } else {
                group + part * self.loads.len()
            };
            Rank::from_index(server)
        });
        servers.collect()
    }
}
