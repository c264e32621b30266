//! The iteration of a model with embedding tables: one rank holds each table, or each part of its columns, and the
//! looked-up rows go to the ranks with the samples. The dense layers are on every rank.

use std::time::Duration;

use reweave_common::ids::Rank;
use reweave_common::iteration::{Iteration, Operation, TaskId};

use super::PresetError;
use super::layers::Layer;
use super::profile::Cost;
use super::task_chains::TaskChains;

pub(super) struct Tables<'t> {
    pub(super) bottom: &'t [Layer],
    pub(super) top: &'t [Layer],
    /// Number of parts of tables on each rank.
    pub(super) held: Vec<usize>,
    /// Cost to look up the whole batch in one of them.
    pub(super) lookup: Cost,
    pub(super) entry_bytes: u64,
    /// Samples of one rank.
    pub(super) samples: u64,
    pub(super) ranks: usize,
    pub(super) gradient_bytes: u64,
}

/// Returns the number of parts on each rank. Hosts take turns, and so do the ranks of each, so that a few parts use the
/// ports of all hosts.
pub(super) fn dealt_out(parts: usize, ranks: usize, of_a_host: usize) -> Vec<usize> {
    let mut turns: Vec<_> = (0..ranks).collect();
    turns.sort_by_key(|rank| (rank % of_a_host, rank / of_a_host));
    let mut held = vec![parts / ranks; ranks];
    for &rank in turns.iter().take(parts % ranks) {
        held[rank] += 1;
    }
    held
}

impl Tables<'_> {
    pub(super) fn iteration(&self) -> Result<Iteration, PresetError> {
        let mut chains = TaskChains::new(self.ranks);
        let ranks: Vec<_> = (0..self.ranks).map(Rank::from_index).collect();
        let looked_up: Vec<_> = self.on_holders(&mut chains, "look up", self.lookup.forward());
        let arrived = self.exchange(&mut chains, &looked_up, false);
        self.dense(&mut chains, self.bottom, false);
        wait(&mut chains, &ranks, &arrived);
        self.dense(&mut chains, self.top, false);
        self.dense(&mut chains, self.top, true);
        let done: Vec<_> = ranks.iter().map(|&rank| chains.tail(rank)[0]).collect();
        let returned = self.exchange(&mut chains, &done, true);
        self.dense(&mut chains, self.bottom, true);
        wait(&mut chains, &ranks, &returned);
        self.on_holders(&mut chains, "update", self.lookup.backward());
        chains.builder.build().map_err(PresetError::Iteration)
    }

    /// Returns the number of parts per rank, if all have the same.
    fn held_by_each(&self) -> Option<usize> {
        let first = *self.held.first()?;
        self.held.iter().all(|&held| held == first).then_some(first)
    }

    fn on_holders(&self, chains: &mut TaskChains, name: &str, one: Duration) -> Vec<TaskId> {
        let time = |rank: usize| one * u32::try_from(self.held[rank]).unwrap_or(u32::MAX);
        let compute = |rank| chains.compute(Rank::from_index(rank), name, time(rank));
        (0..self.ranks).map(compute).collect()
    }

    fn dense(&self, chains: &mut TaskChains, layers: &[Layer], backward: bool) {
        let order: Vec<_> = if backward {
            layers.iter().rev().collect()
        } else {
            layers.iter().collect()
        };
        let ranks: Vec<_> = (0..self.ranks).map(Rank::from_index).collect();
        for layer in order {
            let (name, time) = if backward {
                ("backward", layer.cost.backward())
            } else {
                ("forward", layer.cost.forward())
            };
            for &rank in &ranks {
                chains.compute(rank, name, time);
            }
            let bytes = layer.parameters * self.gradient_bytes;
            if backward && bytes > 0 && self.ranks > 1 {
                let name = format!("all-reduce of {}", layer.name);
                chains.beside(&ranks, &name, Operation::AllReduce, bytes);
            }
        }
    }

    /// Exchanges rows between ranks with tables and ranks with samples. Returns for each rank the tasks of the
    /// arrivals.
    fn exchange(&self, chains: &mut TaskChains, before: &[TaskId], back: bool) -> Vec<Vec<TaskId>> {
        let name = if back {
            "all-to-all of gradients"
        } else {
            "all-to-all of entries"
        };
        let ranks: Vec<_> = (0..self.ranks).map(Rank::from_index).collect();
        let of_part = self.entry_bytes * self.samples;
        if let Some(held) = self.held_by_each() {
            let bytes = of_part * (held * self.ranks) as u64;
            let task = chains.after(before, &ranks, name, Operation::AllToAll, bytes);
            return vec![vec![task]; self.ranks];
        }
        let mut arrived: Vec<_> = before.iter().map(|&own| vec![own]).collect();
        for holder in (0..self.ranks).filter(|&rank| self.held[rank] > 0) {
            let bytes = of_part * self.held[holder] as u64;
            for other in (0..self.ranks).filter(|&other| other != holder) {
                let [from, to] = if back {
                    [other, holder]
                } else {
                    [holder, other]
                };
                let ends = [from, to].map(Rank::from_index);
                let task = chains.transfer(&[before[from]], ends, name, bytes);
                arrived[to].push(task);
            }
        }
        arrived
    }
}

fn wait(chains: &mut TaskChains, ranks: &[Rank], arrived: &[Vec<TaskId>]) {
    for (&rank, tasks) in ranks.iter().zip(arrived) {
        tasks.iter().for_each(|&task| chains.also_wait(rank, task));
    }
}
