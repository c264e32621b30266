//! Consensus between coordinators: one log of decisions, the same on all of them.
//!
//! [`Replica`] is a state machine around the Raft of the crate `raft`, without sockets, disks or clocks. Its driver
//! hands in ticks, messages of peers, proposals and reads, and executes its [`Effect`]s in order: messages to send,
//! records to make durable, entries to apply. The meaning of entries and the content of snapshots are opaque to it.
//!
//! A [`Store`] keeps the log in a file through a [`LogStorage`]; a [`DurableReplica`] combines both.
//!
//! No input from a network or a disk is decoded as protobuf: messages and records are types of this crate in postcard.

mod change;
mod durable;
mod effect;
mod exact;
mod introduction;
mod journal;
mod log_storage;
mod memory;
mod reads;
mod replica;
mod store;
mod timing;
mod wire;

#[cfg(test)]
mod tests;

pub use change::{Change, ChangeRefused, Member, Members, NoPlace, Welcome};
pub use durable::{DISK_CHECK_INTERVAL_TICKS, DurableReplica, Persisted};
pub use effect::{
    Applied, Effect, LostLog, NotLeading, ProposalRefused, ReadId, RequestId, Standing, StartError,
    StateOversized,
};
pub use exact::decode_exact;
pub use introduction::{Answer, Beginning, Newcomer};
pub use journal::{Batch, Journal, JournalError, Record, Saved, Tail};
pub use log_storage::{Compaction, LogFile, LogStorage};
pub use replica::{Founding, MAX_PROPOSAL_BYTES, MAX_STATE_BYTES, Proposal, Replica, Status};
pub use store::{
    LogError, MIN_FREE_BYTES, Opened, Store, Written, discard_compacted, write_compacted,
};
pub use timing::Timing;
pub use wire::{
    Configuration, Entry, EntryContent, FolderId, Kind, MemberId, Message, Snapshot, Step,
    Transition, Vote,
};
