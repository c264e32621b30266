//! The NICs of the ranks of a job: each rank uses that of its GPU.

use std::collections::BTreeMap;

use reweave_common::fabric::Fabric;
use reweave_common::ids::{NicId, NodeId, Rank};

/// Training NICs by rank. Empty if the fabric file declares no NICs; a rank without any sends over any link of its host.
#[derive(Debug, Clone, Default)]
pub(super) struct RankNics(Vec<Vec<NicId>>);

impl RankNics {
    /// `placement` names a host for each rank; ranks of a host are numbered in its order.
    pub(super) fn new(fabric: &Fabric, placement: &[NodeId]) -> Self {
        if !fabric.has_declared_nics() {
            return Self::default();
        }
        let mut on_host: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
        for (rank, &host) in placement.iter().enumerate() {
            on_host.entry(host).or_default().push(rank);
        }
        let mut by_rank = vec![Vec::new(); placement.len()];
        for (host, ranks) in on_host {
            let nics = fabric.training_nics(host);
            for (local, &rank) in ranks.iter().enumerate() {
                by_rank[rank] = of_local_rank(fabric, &nics, local, ranks.len());
            }
        }
        Self(by_rank)
    }

    pub(super) fn are_known(&self) -> bool {
        !self.0.is_empty()
    }

    pub(super) fn of(&self, rank: Rank) -> &[NicId] {
        self.0.get(rank.index()).map_or(&[][..], Vec::as_slice)
    }
}

/// Returns the NICs that are declared for this GPU. Without such, ranks take NICs in turn, in order of rail: with more
/// ranks several share a NIC, and with fewer a rank has several NICs.
fn of_local_rank(fabric: &Fabric, nics: &[NicId], local: usize, ranks: usize) -> Vec<NicId> {
    let is_own = |id: &&NicId| fabric.nic(**id).gpu.map(usize::from) == Some(local);
    let own: Vec<_> = nics.iter().filter(is_own).copied().collect();
    if !own.is_empty() || nics.is_empty() {
        return own;
    }
    let first = local % nics.len();
    nics[first..].iter().step_by(ranks).copied().collect()
}
