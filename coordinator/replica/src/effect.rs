//! Effects of a replica, and its refusals.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::change::{Member, Members};
use crate::journal::Batch;
use crate::wire::{MemberId, Message};

/// Names a proposal, so that it is applied once however often it is proposed. Each client counts
/// its own upwards; one that was overtaken by a higher number of the same client is void.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RequestId {
    pub client: u64,
    pub number: u64,
}

/// Identifies a read for its requester.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadId(pub u64);

/// To be executed in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// May be lost, repeated or late.
    Send(Message),
    /// Make this durable, all or nothing, and then say [`handle_durable`]. Nothing else comes out
    /// before that, except [`Effect::Compact`], and what follows from [`stop_leading`] and [`handle_vouched`].
    ///
    /// [`handle_durable`]: crate::Replica::handle_durable
    /// [`stop_leading`]: crate::Replica::stop_leading
    /// [`handle_vouched`]: crate::Replica::handle_vouched
    Persist(Batch),
    /// Write a file that begins with this, and with all that is made durable from now on, to take the place of the old one.
    /// Everything goes on meanwhile. Then say [`handle_compacted`](crate::Replica::handle_compacted), or
    /// [`handle_not_compacted`](crate::Replica::handle_not_compacted).
    Compact(Batch),
    /// The next entry of the log that all agree on.
    Apply(Applied),
    /// This was applied already.
    Repeated(RequestId),
    /// Everything applied so far is replaced by this.
    Restore {
        index: u64,
        state: Vec<u8>,
    },
    /// Make a snapshot of all that was applied, up to this index and no further, and say
    /// [`handle_snapshot`](crate::Replica::handle_snapshot).
    TakeSnapshot {
        index: u64,
    },
    /// All that was agreed on before this read was asked for has been applied.
    ReadReady(ReadId),
    /// Whether that is so is not to be found out any longer: this replica does not lead.
    ReadLost(ReadId),
    Stands(Standing),
    Membership(Members),
    /// Members to come, besides those of [`Effect::Membership`]: they are heard already, and answers need a way to them.
    Awaited(BTreeMap<MemberId, Member>),
    /// A later version wrote this entry; there is no going on without knowing what it says.
    Unreadable {
        index: u64,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    pub index: u64,
    pub request: RequestId,
    pub payload: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// And everything that leaders before agreed on has been applied.
    Leads {
        term: u64,
    },
    Follows {
        leader: Option<MemberId>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("this coordinator does not lead")]
pub struct NotLeading;

/// Why a proposal was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ProposalRefused {
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
    #[error(
        "an entry of {length_bytes} bytes cannot be replicated: the limit is {limit_bytes} bytes"
    )]
    Oversized {
        length_bytes: usize,
        limit_bytes: usize,
    },
}

/// Why there is no snapshot of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "a state of {length_bytes} bytes fits no snapshot: the limit is {limit_bytes} bytes. The log \
     keeps all entries since the last snapshot"
)]
pub struct StateOversized {
    pub length_bytes: usize,
    pub limit_bytes: usize,
}

/// The leader has seen this replica hold more of the log than it holds now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "member {id} has held the log up to entry {held} and now ends at {ends}: its data was lost or \
     set back. It may not vote again; take it out of the cluster and add it as a new member"
)]
pub struct LostLog {
    pub id: MemberId,
    pub held: u64,
    pub ends: u64,
}

#[derive(Debug, Error)]
pub enum StartError {
    #[error("Raft cannot continue from the stored state")]
    Raft(#[source] raft::Error),
    #[error(
        "the snapshot up to entry {index} of the log is intact, but its format is unknown to this \
         version: start the version that wrote it"
    )]
    UnknownSnapshot { index: u64 },
}
