//! Groups of ranks, as ranks report them: groups that split tensors, and pipelines.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::collective::RankReading;
use reweave_common::ids::NodeId;

use crate::estimate::rank_reports::{Communicator, Ranks};

/// Names that frameworks give to groups that split tensors.
const TENSOR_GROUP_NAMES: [&str; 2] = ["tensor", "tp"];
const OTHER_GROUP_NAMES: [&str; 10] = [
    "data", "dp", "context", "cp", "expert", "ep", "pipeline", "pp", "sequence", "sp",
];
/// Messages to one rank.
const POINT_TO_POINT_KINDS: [&str; 2] = ["Send", "Recv"];

/// Groups by the positions of their hosts in the job.
#[derive(Debug, Default)]
pub(crate) struct RankGroups {
    pub(crate) tensors: Vec<Vec<usize>>,
    /// The stages in order; equal stages of parallel pipelines are one.
    pub(crate) stages: Vec<Vec<usize>>,
}

impl RankGroups {
    /// The groups whose ranks all report.
    pub(crate) fn of(ranks: &Ranks<'_>, hosts: &BTreeSet<NodeId>) -> Self {
        let places: BTreeMap<_, _> = hosts.iter().zip(0..).collect();
        let mut groups = Self::default();
        for communicator in ranks.among(hosts).filter(|it| is_whole(it)) {
            let members = communicator.values();
            let members = members.filter_map(|(host, _)| places.get(host).copied());
            let members: Vec<usize> = members.collect();
            if communicator
                .values()
                .all(|(_, report)| splits_tensors(report))
            {
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
    let mut report = communicator.values();
    report.all(|(_, report)| report.rank.ranks as usize == communicator.len())
}

/// Recognized by its name: other groups of few ranks look the same.
fn splits_tensors(rank_reading: &RankReading) -> bool {
    let name = rank_reading.rank.name.to_lowercase();
    let words = name.split(|letter: char| !letter.is_alphanumeric());
    let has = |known: &[&str]| words.clone().any(|word| known.contains(&word));
    has(&TENSOR_GROUP_NAMES) && !has(&OTHER_GROUP_NAMES)
}

/// Whether its ranks only send to the next one or to the previous one.
fn is_pipeline(communicator: &Communicator<'_>) -> bool {
    let works = communicator.values().flat_map(|(_, report)| &report.works);
    let mut works = works.peekable();
    let peers = communicator.values().flat_map(|(_, report)| {
        let peers = report.peers.iter();
        peers.map(|peer| peer.rank.abs_diff(report.rank.rank))
    });
    works.peek().is_some()
        && works.all(|it| POINT_TO_POINT_KINDS.contains(&&it.kind[..]))
        && peers.into_iter().all(|distance| distance == 1)
}
