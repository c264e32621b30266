//! Effects of a replica, and its refusals.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::change::{Member, Members};
use crate::journal::Batch;
use crate::wire::{MemberId, Message};

/// Identifies a proposal, so that it is applied once, however often it is proposed. Each client numbers its proposals
/// upwards; a proposal below an applied one of the same client is void.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RequestId {
    pub client: u64,
    pub number: u64,
}

/// Identifies a read for its requester.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReadId(pub u64);

/// Effects are executed in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Send this message. It may be lost, repeated or late.
    Send(Message),
    /// Make this batch durable, all or nothing, and then call [`handle_durable`]. Until then there are no other
    /// effects, except [`Effect::Compact`] and those of [`stop_leading`] and [`handle_reported_members`].
    ///
    /// [`handle_durable`]: crate::Replica::handle_durable
    /// [`stop_leading`]: crate::Replica::stop_leading
    /// [`handle_reported_members`]: crate::Replica::handle_reported_members
    Persist(Batch),
    /// Write a file that begins with this batch, followed by all that is made durable from now on, and replace the log
    /// by it. Everything else goes on meanwhile. Then call [`handle_compacted`](crate::Replica::handle_compacted) or
    /// [`handle_not_compacted`](crate::Replica::handle_not_compacted).
    Compact(Batch),
    /// Apply the next committed entry.
    Apply(Applied),
    /// This proposal was applied already.
    Repeated(RequestId),
    /// Replace the state by this one.
    Restore {
        index: u64,
        state: Vec<u8>,
    },
    /// Make a snapshot of the state after exactly this entry, and call
    /// [`handle_snapshot`](crate::Replica::handle_snapshot).
    TakeSnapshot {
        index: u64,
    },
    /// Everything committed before this read was requested has been applied.
    ReadReady(ReadId),
    /// The read cannot be confirmed: this replica does not lead.
    ReadLost(ReadId),
    Stands(Standing),
    Membership(Members),
    /// Members that may be added soon, besides those of [`Effect::Membership`]. Their messages are accepted already,
    /// and replies need a connection to them.
    PendingMembers(BTreeMap<MemberId, Member>),
    /// A later version wrote this entry, so this build cannot continue.
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
    /// It leads, and has applied everything that earlier leaders committed.
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

/// Why a proposal was refused.
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

/// The leader knows that this replica once held more of the log than now.
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
