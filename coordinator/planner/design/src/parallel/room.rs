//! Splits that fit into the memory of servers.

use reweave_common::ids::Rank;
use reweave_common::units::Bytes;
use reweave_sim::workload::job::operators::Split;

use super::operators::{Crowded, Search};
use crate::topology::TopologyError;

impl Search<'_> {
    /// Returns these splits, if they fit into memory.
    pub fn kept(&self, splits: Vec<Split>) -> Result<Vec<Split>, TopologyError> {
        if self.fits(&splits) {
            return Ok(splits);
        }
        let needed = self.memory(&splits).into_iter().max().unwrap_or_default();
        self.with_room(splits).map_err(TopologyError::Crowded)?;
        Err(TopologyError::KeptNoRoom {
            needed,
            memory: self.memory.unwrap_or_default(),
            instead: "other servers".to_owned(),
        })
    }

    /// These splits where they fit, or what becomes of them when the fullest server hands on what it
    /// has of an operator, again and again.
    pub fn with_room(&self, mut splits: Vec<Split>) -> Result<Vec<Split>, Crowded> {
        let Some(memory) = self.memory else {
            return Ok(splits);
        };
        let mut enough = Bytes::new(u64::MAX);
        for _ in 0..=self.servers * splits.len() {
            let held = self.memory(&splits);
            let Some((fullest, &most)) = held.iter().enumerate().max_by_key(|(_, held)| **held)
            else {
                break;
            };
            enough = enough.min(most);
            if most <= memory {
                return Ok(splits);
            }
            let mut own: Vec<_> = (0..splits.len()).collect();
            own.retain(|&nth| splits[nth].contains(&Rank::from_index(fullest)));
            own.sort_by_key(|&nth| self.part(nth, splits[nth].len()));
            let relief = |&nth: &usize| Some((nth, self.relief(&splits, nth, fullest, &held)?));
            let Some((nth, split)) = own.iter().rev().find_map(relief) else {
                break;
            };
            splits[nth] = split;
        }
        Err(Crowded {
            servers: self.servers,
            memory,
            enough,
        })
    }

    /// Another split of an operator that leaves the fullest server less, and no other as much.
    fn relief(
        &self,
        splits: &[Split],
        nth: usize,
        fullest: usize,
        held: &[Bytes],
    ) -> Option<Split> {
        let (split, most) = (&splits[nth], held[fullest]);
        let emptiest = (0..self.servers)
            .filter(|&server| !split.contains(&Rank::from_index(server)))
            .min_by_key(|&server| held[server]);
        let to = emptiest.filter(|&it| held[it] + self.part(nth, split.len()) < most);
        if let Some(to) = to {
            let moved = split.iter().map(|&rank| {
                if rank.index() == fullest {
                    Rank::from_index(to)
                } else {
                    rank
                }
            });
            return Some(moved.collect());
        }
        let finer = self.sizes(nth).into_iter().filter(|&it| it > split.len());
        finer.map(|parts| self.spread(parts)).find(|finer| {
            let mut changed = splits.to_vec();
            changed[nth].clone_from(finer);
            self.memory(&changed).into_iter().max() < Some(most)
        })
    }

    /// Over servers as far apart as can be.
    fn spread(&self, parts: usize) -> Split {
        let stride = self.servers / parts;
        (0..parts)
            .map(|part| Rank::from_index(part * stride))
            .collect()
    }
}
