//! Operators that stand one on another, and what of that stands side by side.

use std::collections::BTreeMap;

use reweave_common::split_mix::SplitMix64;
use reweave_sim::workload::job::operators::Model;

/// Chains of operators, each read only by the next. Chains that end at the same operator form a set, because they can
/// run at the same time.
pub(super) struct Towers {
    sets: Vec<Vec<Vec<usize>>>,
}

impl Towers {
    pub(super) fn of(model: &Model) -> Self {
        let mut readers = vec![Vec::new(); model.operators.len()];
        for (nth, operator) in model.operators.iter().enumerate() {
            operator
                .inputs
                .iter()
                .for_each(|&input| readers[input].push(nth));
        }
        let below = |nth: usize| match model.operators[nth].inputs[..] {
            [input] if readers[input].len() == 1 => Some(input),
            _ => None,
        };
        let mut sets: BTreeMap<usize, Vec<Vec<usize>>> = BTreeMap::new();
        for (nth, readers) in readers.iter().enumerate() {
            let [reader] = readers[..] else { continue };
            if below(reader) != Some(nth) {
                let mut tower: Vec<_> = std::iter::successors(Some(nth), |&it| below(it)).collect();
                tower.reverse();
                sets.entry(reader).or_default().push(tower);
            }
        }
        Self {
            sets: sets.into_values().filter(|set| set.len() > 1).collect(),
        }
    }

    pub(super) fn some(&self, rng: &mut SplitMix64) -> Option<Vec<Vec<usize>>> {
        match self.sets.len() {
            0 => None,
            sets => Some(self.sets[rng.below(sets)].clone()),
        }
    }
}
