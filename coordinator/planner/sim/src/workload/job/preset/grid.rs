//! Parts of a model by rank: tensor slices are closest together, then replicas, then stages.

use reweave_common::ids::Rank;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grid {
    pub(super) tensor: usize,
    pub(super) data: usize,
    pub(super) stages: usize,
    /// Over how many replicas the experts of a layer are spread.
    pub(super) expert: usize,
}

impl Grid {
    pub(super) fn ranks(self) -> usize {
        self.tensor * self.data * self.stages
    }

    pub(super) fn rank(self, slice: usize, replica: usize, stage: usize) -> Rank {
        Rank::from_index(slice + self.tensor * (replica + self.data * stage))
    }

    /// All ranks of a stage.
    pub(super) fn stage(self, stage: usize) -> Vec<Rank> {
        let replica = |replica| (0..self.tensor).map(move |slice| (slice, replica));
        let all = (0..self.data).flat_map(replica);
        all.map(|(slice, replica)| self.rank(slice, replica, stage))
            .collect()
    }

    /// The ranks that share a layer between them, once for each replica.
    pub(super) fn slices(self, stage: usize) -> Vec<Vec<Rank>> {
        (0..self.data)
            .map(|replica| {
                (0..self.tensor)
                    .map(move |it| self.rank(it, replica, stage))
                    .collect()
            })
            .collect()
    }

    /// The ranks that hold the same weights, once for each slice.
    pub(super) fn replicas(self, stage: usize) -> Vec<Vec<Rank>> {
        self.every(stage, 1, self.data)
    }

    /// The ranks that the experts of a layer are spread over.
    pub(super) fn expert_groups(self, stage: usize) -> Vec<Vec<Rank>> {
        self.every(stage, 1, self.expert)
    }

    /// The ranks that hold the same experts.
    pub(super) fn expert_replicas(self, stage: usize) -> Vec<Vec<Rank>> {
        self.every(stage, self.expert, self.data / self.expert)
    }

    /// Returns for each slice all replicas in groups of `size` at distance `stride`.
    fn every(self, stage: usize, stride: usize, size: usize) -> Vec<Vec<Rank>> {
        let mut groups = Vec::new();
        for slice in 0..self.tensor {
            for block in (0..self.data).step_by(stride * size) {
                for first in block..block + stride {
                    let member = |nth: usize| self.rank(slice, first + nth * stride, stage);
                    groups.push((0..size).map(member).collect());
                }
            }
        }
        groups
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn groups_hold_every_rank_once() {
        let grid = Grid {
            tensor: 2,
            data: 6,
            stages: 2,
            expert: 3,
        };
        let all: BTreeSet<_> = grid.stage(1).into_iter().collect();
        assert_eq!(all.len(), 12);
        let groups = [
            (grid.slices(1), 2),
            (grid.replicas(1), 6),
            (grid.expert_groups(1), 3),
            (grid.expert_replicas(1), 2),
        ];
        for (groups, size) in groups {
            assert!(groups.iter().all(|group| group.len() == size));
            let members: BTreeSet<_> = groups.concat().into_iter().collect();
            assert_eq!((members, groups.len()), (all.clone(), 12 / size));
        }
        let indices = |group: &[Rank]| group.iter().map(|rank| rank.index()).collect::<Vec<_>>();
        assert_eq!(indices(&grid.expert_groups(0)[0]), [0, 2, 4]);
        assert_eq!(indices(&grid.expert_replicas(0)[0]), [0, 6]);
    }
}
