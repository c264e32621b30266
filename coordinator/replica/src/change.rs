//! Membership changes, with the other members running.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use protobuf::Message as _;
use raft::eraftpb::{ConfChangeSingle, ConfChangeType, ConfChangeV2, ConfState};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::wire::{Configuration, FolderId, MemberId};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "CoordinatorMember")]
pub struct Member {
    /// The name in its certificate.
    pub name: String,
    pub address: SocketAddr,
    /// The member that leaves when this one may vote.
    pub replaces: Option<MemberId>,
    /// The folder that belongs to its number; none until it has shown one.
    pub folder: Option<FolderId>,
}

/// The result for a coordinator that introduces itself with a name and a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Welcome {
    Member(MemberId),
    /// A new member whose folder is not recorded yet.
    Expected(MemberId),
    /// No member has that name.
    Unknown,
    /// Its number belongs to another folder: it has lost its log, and with it its votes.
    Stranger,
}

/// All members. Raft's configuration says which of them vote.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Members {
    pub of: BTreeMap<MemberId, Member>,
    pub configuration: Configuration,
    /// No number is assigned twice: a member that lost its disk gets a new one.
    pub last: MemberId,
    /// Names of removed members, whose certificates stay valid for a while.
    pub removed: BTreeSet<String>,
}

/// A membership change. One at a time: the next has to wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// Adds a learner, which votes as soon as it has caught up.
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
    /// Records the folder that belongs to the new member's number.
    Settle {
        id: MemberId,
        folder: FolderId,
    },
}

/// Why an address does not work for the other members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPlace {
    Port,
    Anywhere,
    Many,
    /// A loopback address, where other members are on other machines.
    Loopback,
}

impl fmt::Display for NoPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Port => "has no port that can be connected to",
            Self::Anywhere => "is not the address of one machine: others connect to it",
            Self::Many => "is the address of many machines: others connect to one",
            Self::Loopback => {
                "is a loopback address: members on other machines cannot connect to it"
            }
        })
    }
}

impl NoPlace {
    pub fn of(address: SocketAddr) -> Option<Self> {
        let ip = address.ip().to_canonical();
        match ip {
            _ if address.port() == 0 => Some(Self::Port),
            _ if ip.is_unspecified() => Some(Self::Anywhere),
            _ if ip.is_multicast() || ip == IpAddr::V4(Ipv4Addr::BROADCAST) => Some(Self::Many),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ChangeRefused {
    #[error("this coordinator does not lead")]
    NotLeading,
    #[error("another membership change is in progress")]
    Busy,
    #[error("member {0} is still learning; wait until it votes, or replace or remove it first")]
    Learning(MemberId),
    #[error("member {0} has that name")]
    Named(MemberId),
    #[error("{address} {why}")]
    Nowhere { address: SocketAddr, why: NoPlace },
    #[error("{address} is the address of member {by}")]
    Taken { address: SocketAddr, by: MemberId },
    #[error("member {0} has shown its folder already")]
    Settled(MemberId),
    #[error(
        "of the {voters} voters after the change, {needed} must be connected, but only {heard} are"
    )]
    NoQuorum {
        voters: usize,
        needed: usize,
        heard: usize,
    },
    #[error("member {0} is the leader and transfers leadership now; retry with the new leader")]
    HandingOver(MemberId),
    #[error("number {0} was given before; numbers are never given twice")]
    Used(MemberId),
    #[error("no member {0}")]
    Unknown(MemberId),
    #[error("member {0} is the last one that votes")]
    Last(MemberId),
    #[error(
        "of fewer than three voters none can be replaced: add the new member first, and remove \
         member {0} once the new one votes"
    )]
    Few(MemberId),
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
            removed: BTreeSet::new(),
        }
    }

    pub fn is_voter(&self, id: MemberId) -> bool {
        self.configuration.voters.contains(&id)
    }

    /// Whether this member votes before the running change or after it.
    pub(crate) fn votes_ever(&self, id: MemberId) -> bool {
        self.is_voter(id) || self.configuration.voters_outgoing.contains(&id)
    }

    /// Whether this member votes already.
    pub fn votes(&self, id: MemberId) -> bool {
        let before = &self.configuration.voters_outgoing;
        self.is_voter(id) && (before.is_empty() || before.contains(&id))
    }

    pub fn is_learner(&self, id: MemberId) -> bool {
        self.configuration.learners.contains(&id)
    }

    /// The lowest version that any member reads; none if one of them is unknown.
    pub fn min_version(&self, version: impl Fn(MemberId) -> Option<u16>) -> Option<u16> {
        self.of.keys().map(|&id| version(id)).min().flatten()
    }

    /// The members with this certificate name. There are two while one replaces the other.
    pub fn named(&self, name: &str) -> impl Iterator<Item = MemberId> {
        let of = self.of.iter();
        of.filter(move |(_, member)| member.name == name)
            .map(|(&id, _)| id)
    }

    /// The member with this name whose folder this is.
    pub fn welcome(&self, name: &str, folder: FolderId) -> Welcome {
        let of_folder = |known: Option<FolderId>| {
            self.named(name)
                .find(|id| self.of.get(id).is_some_and(|member| member.folder == known))
        };
        if let Some(id) = of_folder(Some(folder)) {
            return Welcome::Member(id);
        }
        match of_folder(None) {
            Some(id) => Welcome::Expected(id),
            None if self.named(name).next().is_none() => Welcome::Unknown,
            None => Welcome::Stranger,
        }
    }

    /// Whether the member of this name was removed and not admitted again.
    pub fn is_removed(&self, name: &str) -> bool {
        self.removed.contains(name)
    }

    /// Whether a coordinator with this number and name is no member any longer. A number that was given never returns.
    pub fn was_removed(&self, id: MemberId, name: &str) -> bool {
        let was_given = (MemberId(1)..=self.last).contains(&id);
        !self.of.contains_key(&id) && (was_given || self.is_removed(name))
    }

    /// Whether messages of this number are accepted.
    pub fn hears(&self, id: MemberId, name: &str, folder: FolderId) -> bool {
        match self.of.get(&id) {
            Some(member) => {
                member.name == name && member.folder.is_none_or(|known| known == folder)
            }
            None => false,
        }
    }

    /// Whether an unknown number may have been added by entries that are not applied yet: then
    /// [`Replica::expects`](crate::Replica::expects) decides. Messages of former numbers and of removed members are
    /// refused. If a removed member was added again by an entry that is missing here, another member has to report it.
    pub fn may_be_new(&self, id: MemberId, name: &str) -> bool {
        id > self.last && !self.is_removed(name)
    }

    /// Whether this list is from a later entry of the same log. Numbers only grow; between two additions, members are
    /// only removed and get their folders.
    pub(crate) fn is_later_than(&self, other: &Self) -> bool {
        let settled = |it: &Self| it.of.values().filter(|it| it.folder.is_some()).count();
        let place = |it: &Self| (it.last, Reverse(it.of.len()), settled(it));
        place(self) > place(other)
    }

    pub(crate) fn objection(&self, change: &Change) -> Option<ChangeRefused> {
        match change {
            Change::Add { id, member } => self.objection_to_newcomer(*id, member),
            Change::Remove { id } | Change::Promote { id } | Change::Settle { id, .. }
                if !self.of.contains_key(id) =>
            {
                Some(ChangeRefused::Unknown(*id))
            }
            Change::Remove { id } => {
                (self.configuration.voters == [*id]).then_some(ChangeRefused::Last(*id))
            }
            Change::Settle { id, .. } => {
                let is_settled = self.of.get(id).is_some_and(|it| it.folder.is_some());
                (is_settled || !self.is_learner(*id)).then_some(ChangeRefused::Settled(*id))
            }
            Change::Promote { .. } => None,
        }
    }

    fn objection_to_newcomer(&self, id: MemberId, member: &Member) -> Option<ChangeRefused> {
        if id <= self.last {
            return Some(ChangeRefused::Used(id));
        }
        let old = member.replaces;
        // A learner that lost its folder can be replaced.
        let mut learners = self.configuration.learners.iter().copied();
        if let Some(learner) = learners.find(|id| Some(*id) != old) {
            return Some(ChangeRefused::Learning(learner));
        }
        if let Some(unknown) = old.filter(|old| !self.of.contains_key(old)) {
            return Some(ChangeRefused::Unknown(unknown));
        }
        if let Some(old) = old.filter(|old| self.cannot_be_replaced(*old)) {
            return Some(ChangeRefused::Few(old));
        }
        let mut others = self.named(&member.name).filter(|id| Some(*id) != old);
        let named = others.next().map(ChangeRefused::Named);
        named.or_else(|| self.objection_to_place(member.address, old))
    }

    /// Of two voters, the one that stays is no majority of both, and both configurations have to agree on the last
    /// step: the change would never end. A single voter leads, and would have to leave itself.
    fn cannot_be_replaced(&self, old: MemberId) -> bool {
        self.is_voter(old) && self.configuration.voters.len() < 3
    }

    /// Objections to the new member's name and address. The member that it replaces does not count.
    fn objection_to_place(
        &self,
        address: SocketAddr,
        old: Option<MemberId>,
    ) -> Option<ChangeRefused> {
        if let Some(why) = NoPlace::of(address) {
            return Some(ChangeRefused::Nowhere { address, why });
        }
        let mut others = self.of.iter().filter(|&(id, _)| Some(*id) != old);
        if is_loopback(address) && others.clone().any(|(_, other)| is_elsewhere(other.address)) {
            let why = NoPlace::Loopback;
            return Some(ChangeRefused::Nowhere { address, why });
        }
        let there = others.find(|(_, other)| other.address == address);
        there.map(|(&by, _)| ChangeRefused::Taken { address, by })
    }

    /// The voters after this change.
    pub(crate) fn voters_after(&self, change: &Change) -> BTreeSet<MemberId> {
        let mut voters: BTreeSet<_> = self.configuration.voters.iter().copied().collect();
        match change {
            Change::Remove { id } => drop(voters.remove(id)),
            Change::Promote { id } => {
                voters.insert(*id);
                if let Some(old) = self.of.get(id).and_then(|member| member.replaces) {
                    voters.remove(&old);
                }
            }
            Change::Add { .. } | Change::Settle { .. } => {}
        }
        voters
    }

    /// The change as Raft's steps; several steps at once use joint consensus.
    pub(crate) fn steps(&self, change: &Change) -> ConfChangeV2 {
        let steps = match change {
            // For Raft, adding an existing learner changes nothing.
            Change::Add { id, .. } | Change::Settle { id, .. } => {
                vec![step(ConfChangeType::AddLearnerNode, *id)]
            }
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
                self.removed.remove(&member.name);
                self.of.insert(*id, member.clone());
                self.last = self.last.max(*id);
            }
            Change::Remove { id } => self.take_out(*id),
            Change::Settle { id, folder } => {
                if let Some(settled) = self.of.get_mut(id) {
                    settled.folder = Some(*folder);
                }
            }
            Change::Promote { id } => {
                let promoted = self.of.get_mut(id);
                if let Some(old) = promoted.and_then(|member| member.replaces.take()) {
                    self.take_out(old);
                }
            }
        }
    }

    /// Removes a member. Another one may have the same name: the one that replaced it after it lost its disk.
    fn take_out(&mut self, id: MemberId) {
        let gone = self.of.remove(&id).map(|member| member.name);
        self.removed
            .extend(gone.filter(|name| self.named(name).next().is_none()));
    }

    pub(crate) fn configure(&mut self, state: &ConfState) {
        self.configuration = Configuration::from(state);
    }
}

fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// Whether a member is on a machine of its own, as far as its address says. One that listens everywhere may be on any.
fn is_elsewhere(address: SocketAddr) -> bool {
    !is_loopback(address) && !address.ip().to_canonical().is_unspecified()
}

fn step(kind: ConfChangeType, id: MemberId) -> ConfChangeSingle {
    let mut step = ConfChangeSingle::default();
    step.set_change_type(kind);
    step.node_id = id.0;
    step
}

/// Decodes bytes that this process has encoded itself.
pub(crate) fn steps_in(data: &[u8]) -> Option<ConfChangeV2> {
    let mut steps = ConfChangeV2::default();
    steps.merge_from_bytes(data).ok()?;
    Some(steps)
}

pub(crate) fn steps_out(steps: &ConfChangeV2) -> Vec<u8> {
    // Writing to memory does not fail.
    steps.write_to_bytes().unwrap_or_default()
}
