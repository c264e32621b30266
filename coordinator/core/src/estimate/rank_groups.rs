//! Groups of ranks, as ranks report them: groups that split tensors, and pipelines.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::collective::RankReading;
use reweave_common::ids::NodeId;

use crate::estimate::rank_reports::{Communicator, Ranks};

/// What frameworks call groups by which tensors are split, and by which anything else is beside them.
const TENSOR_GROUP_NAMES: [&str; 2] = ["tensor", "tp"];
const OTHER_GROUP_NAMES: [&str; 10] = [
    "data", "dp", "context", "cp", "expert", "ep", "pipeline", "pp", "sequence", "sp",
];
/// Messages to one rank.
const POINT_TO_POINT_KINDS: [&str; 2] = ["Send", "Recv"];

/// By the places of their hosts among those of the job.
#[derive(Debug, Default)]
pub(crate) struct RankGroups {
    pub(crate) tensors: Vec<Vec<usize>>,
    /// In their order; of several pipelines alike those at one stage together.
    pub(crate) stages: Vec<Vec<usize>>,
}

impl RankGroups {
    /// As far as all ranks of a group tell of it.
    pub(crate) fn of(ranks: &Ranks<'_>, hosts: &BTreeSet<NodeId>) -> Self {
        let places: BTreeMap<_, _> = hosts.iter().zip(0..).collect();
        let mut groups = Self::default();
        for communicator in ranks.among(hosts).filter(|it| is_whole(it)) {
            let members = communicator.values();
            let members = members.filter_map(|(host, _)| places.get(host).copied());
            let members: Vec<usize> = members.collect();
            if communicator.values().all(|(_, told)| splits_tensors(told)) {
                groups.tensors.push(members);
            } else if is_pipeline(communicator) {
                groups.add_pipeline(&members);
            }
        }
        groups
    }

    fn add_pipeline(&mut self, members: &[usize]) {
        if self.stages.is_empty() {
            self.stages = members.iter().map(|_| vec![]).collect();
        }
        if self.stages.len() == members.len() {
            let stages = self.stages.iter_mut().zip(members);
            stages.for_each(|(stage, member)| stage.push(*member));
        }
    }
}

pub(crate) fn is_whole(communicator: &Communicator<'_>) -> bool {
    let mut told = communicator.values();
    told.all(|(_, told)| told.rank.ranks as usize == communicator.len())
}

/// By its name: all else that few ranks reduce looks alike.
fn splits_tensors(told: &RankReading) -> bool {
    let name = told.rank.name.to_lowercase();
    let words = name.split(|letter: char| !letter.is_alphanumeric());
    let has = |known: &[&str]| words.clone().any(|word| known.contains(&word));
    has(&TENSOR_GROUP_NAMES) && !has(&OTHER_GROUP_NAMES)
}

/// Whether its ranks do nothing but hand on to the next, or back to the one before.
fn is_pipeline(communicator: &Communicator<'_>) -> bool {
    let works = communicator.values().flat_map(|(_, told)| &told.works);
    let mut works = works.peekable();
    let peers = communicator.values().flat_map(|(_, told)| {
        let peers = told.peers.iter();
        peers.map(|peer| peer.rank.abs_diff(told.rank.rank))
    });
    works.peek().is_some()
        && works.all(|it| POINT_TO_POINT_KINDS.contains(&&it.kind[..]))
        && peers.into_iter().all(|distance| distance == 1)
}
