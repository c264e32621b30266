//! Parts of a preset that are lost with some of its ranks.

use std::collections::BTreeSet;

use reweave_common::ids::Rank;

use super::grid::Grid;
use super::{Family, Preset, PresetError, Zero, tables};
use crate::workload::job::Losses;

impl Preset {
    /// A replica that lacks a rank learns nothing more, and what no other replica holds is gone.
    pub fn losses(&self, ranks: usize, dead: &BTreeSet<Rank>) -> Result<Losses, PresetError> {
        let data = self.replicas(ranks)?;
        Ok(match self.family {
            Family::Layered(_) => self.losses_of_layers(data, dead),
            Family::Tables { tables, .. } => {
                self.losses_of_tables(self.tables.unwrap_or(tables), data, dead)
            }
        })
    }

    fn losses_of_layers(&self, data: usize, dead: &BTreeSet<Rank>) -> Losses {
        let spread = &self.parallelism;
        let grid = Grid {
            tensor: spread.tensor,
            data,
            stages: spread.pipeline,
            expert: spread.expert,
        };
        let replica = |rank: &Rank| rank.index() / grid.tensor % grid.data;
        let used = dead.iter().filter(|rank| rank.index() < grid.ranks());
        let broken: BTreeSet<_> = used.map(replica).collect();
        let mut only_copies = Vec::new();
        for stage in 0..grid.stages {
            let gone = |group: &[Rank]| group.iter().all(|rank| dead.contains(rank));
            let slices = grid.replicas(stage).into_iter().enumerate();
            let slices = slices.filter(|(_, group)| gone(group));
            only_copies.extend(slices.map(|(slice, _)| self.part_of_layers(stage, slice)));
            let experts = grid.expert_replicas(stage);
            let lost = experts.iter().filter(|group| gone(group)).count();
            if spread.expert > 1 && lost > 0 {
                only_copies.push(format!("experts of {lost} processors of stage {stage}"));
            }
        }
        if spread.zero != Zero::Off && data > 1 && !broken.is_empty() {
            let what = match spread.zero {
                Zero::Weights => "weights and the optimizer's state",
                _ => "the optimizer's state",
            };
            only_copies.push(format!("{} of {data} parts of {what}", broken.len()));
        }
        Losses {
            only_copies,
            batch: broken.len() as f64 / data.max(1) as f64,
        }
    }

    fn part_of_layers(&self, stage: usize, slice: usize) -> String {
        let spread = &self.parallelism;
        match (spread.pipeline > 1, spread.tensor > 1) {
            (false, false) => "the model".to_owned(),
            (true, false) => format!("stage {stage}"),
            (false, true) => format!("slice {slice}"),
            (true, true) => format!("slice {slice} of stage {stage}"),
        }
    }

    fn losses_of_tables(&self, tables: usize, ranks: usize, dead: &BTreeSet<Rank>) -> Losses {
        let parts = tables * self.parallelism.columns;
        let held = tables::dealt_out(parts, ranks, self.gpus_per_host);
        let used: Vec<_> = dead.iter().filter(|rank| rank.index() < ranks).collect();
        let lost: usize = used.iter().map(|rank| held[rank.index()]).sum();
        let what = match self.parallelism.columns {
            1 => "embedding tables",
            _ => "parts of embedding tables",
        };
        Losses {
            only_copies: (lost > 0)
                .then(|| format!("{lost} of {parts} {what}"))
                .into_iter()
                .collect(),
            batch: used.len() as f64 / ranks.max(1) as f64,
        }
    }
}
