//! Who takes part, and how that changes while the others go on.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use protobuf::Message as _;
use raft::eraftpb::{ConfChangeSingle, ConfChangeType, ConfChangeV2, ConfState};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::wire::{Configuration, MemberId};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// As in its certificate.
    pub name: String,
    pub address: SocketAddr,
    /// Who goes when this one may vote.
    pub replaces: Option<MemberId>,
}

/// All who take part; who of them votes stands in the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Members {
    pub of: BTreeMap<MemberId, Member>,
    pub configuration: Configuration,
    /// No number is given twice: whoever lost its disk is somebody new.
    pub last: MemberId,
}

/// One change of membership; the next has to wait until it is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// It learns first, and votes as soon as it has caught up.
    Add {
        id: MemberId,
        member: Member,
    },
    Remove {
        id: MemberId,
    },
    /// Proposed by the leader itself, when the learner has caught up.
    Promote {
        id: MemberId,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ChangeRefused {
    #[error("this coordinator does not lead")]
    NotLeading,
    #[error("another change of the membership is under way")]
    Busy,
    #[error("number {0} was given before; numbers are never given twice")]
    Used(MemberId),
    #[error("there is no member {0}")]
    Unknown(MemberId),
    #[error("member {0} is the last one that votes")]
    Last(MemberId),
}

impl Members {
    pub(crate) fn founded(of: BTreeMap<MemberId, Member>) -> Self {
        let configuration = Configuration {
            voters: of.keys().copied().collect(),
            ..Configuration::default()
        };
        let last = of.keys().copied().max().unwrap_or_default();
        Self {
            of,
            configuration,
            last,
        }
    }

    pub fn is_voter(&self, id: MemberId) -> bool {
        self.configuration.voters.contains(&id)
    }

    pub fn is_learner(&self, id: MemberId) -> bool {
        self.configuration.learners.contains(&id)
    }

    /// Who goes by this name in its certificate; there may be two while one replaces the other.
    pub fn named(&self, name: &str) -> impl Iterator<Item = MemberId> {
        let of = self.of.iter();
        of.filter(move |(_, member)| member.name == name)
            .map(|(&id, _)| id)
    }

    pub(crate) fn objection(&self, change: &Change) -> Option<ChangeRefused> {
        let known = |id: &MemberId| self.of.contains_key(id);
        match change {
            Change::Add { id, .. } if *id <= self.last => Some(ChangeRefused::Used(*id)),
            Change::Add { member, .. } => member
                .replaces
                .filter(|old| !known(old))
                .map(ChangeRefused::Unknown),
            Change::Remove { id } | Change::Promote { id } if !known(id) => {
                Some(ChangeRefused::Unknown(*id))
            }
            Change::Remove { id } => {
                (self.configuration.voters == [*id]).then_some(ChangeRefused::Last(*id))
            }
            Change::Promote { .. } => None,
        }
    }

    /// In terms of Raft; more than one step at once goes by way of a joint configuration.
    pub(crate) fn steps(&self, change: &Change) -> ConfChangeV2 {
        let steps = match change {
            Change::Add { id, .. } => vec![step(ConfChangeType::AddLearnerNode, *id)],
            Change::Remove { id } => vec![step(ConfChangeType::RemoveNode, *id)],
            Change::Promote { id } => {
                let old = self.of.get(id).and_then(|member| member.replaces);
                let old = old.filter(|old| self.of.contains_key(old));
                let gone = old.map(|old| step(ConfChangeType::RemoveNode, old));
                let promoted = step(ConfChangeType::AddNode, *id);
                std::iter::once(promoted).chain(gone).collect()
            }
        };
        let mut all = ConfChangeV2::default();
        all.set_changes(steps.into());
        all
    }

    pub(crate) fn apply(&mut self, change: &Change) {
        match change {
            Change::Add { id, member } => {
                self.of.insert(*id, member.clone());
                self.last = self.last.max(*id);
            }
            Change::Remove { id } => drop(self.of.remove(id)),
            Change::Promote { id } => {
                let promoted = self.of.get_mut(id);
                if let Some(old) = promoted.and_then(|member| member.replaces.take()) {
                    self.of.remove(&old);
                }
            }
        }
    }

    pub(crate) fn configure(&mut self, state: &ConfState) {
        self.configuration = Configuration::from(state);
    }
}

fn step(kind: ConfChangeType, id: MemberId) -> ConfChangeSingle {
    let mut step = ConfChangeSingle::default();
    step.set_change_type(kind);
    step.node_id = id.0;
    step
}

/// Only ever of bytes that this process wrote itself.
pub(crate) fn steps_in(data: &[u8]) -> Option<ConfChangeV2> {
    let mut steps = ConfChangeV2::default();
    steps.merge_from_bytes(data).ok()?;
    Some(steps)
}

pub(crate) fn steps_out(steps: &ConfChangeV2) -> Vec<u8> {
    // Writing to memory does not fail.
    steps.write_to_bytes().unwrap_or_default()
}
