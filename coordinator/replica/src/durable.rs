//! A replica with its log on a disk.
//!
//! A full disk must cost no more than necessary. Elections go on in the reserved space, other coordinators lead, and
//! nothing new is decided until there is space again. On a file system without a reserve, writes wait for space.

use std::collections::BTreeSet;

use crate::effect::{Effect, LostLog, StartError};
use crate::journal::{Batch, Saved};
use crate::log_disk::LogDisk;
use crate::replica::Replica;
use crate::store::{LogError, Store};
use crate::timing::Timing;
use crate::wire::{Kind, MemberId, Message};

/// From one look at the disk to the next.
pub const DISK_CHECK_INTERVAL_TICKS: u32 = 100;

/// Driven as a [`Replica`] is, except that [`persist`](Self::persist) carries out an [`Effect::Persist`] and
/// [`compact`](Self::compact) an [`Effect::Compact`].
#[derive(Debug)]
pub struct DurableReplica<D: LogDisk> {
    replica: Replica,
    store: Store<D>,
    ticks: u32,
    disk_is_full: bool,
    may_decide: bool,
    /// What Raft wants written down: the disk had no room for that.
    waiting: Option<Batch>,
    /// The disk was looked at since: what waits is to be written now.
    retry_is_due: bool,
    /// From the first attempt at what waits until it is written.
    is_waiting: bool,
}

/// The outcome of a batch.
#[derive(Debug)]
pub enum Persisted {
    /// It survives a loss of power.
    Written,
    /// There was no room. It comes out again as [`Effect::Persist`].
    Waiting(LogError),
}

impl<D: LogDisk> DurableReplica<D> {
    /// Goes on from what was saved, which is what this log holds.
    pub fn new(saved: &Saved, timing: Timing, store: Store<D>) -> Result<Self, StartError> {
        Ok(Self {
            replica: Replica::new(saved, timing)?,
            store,
            ticks: 0,
            disk_is_full: false,
            may_decide: true,
            waiting: None,
            retry_is_due: false,
            is_waiting: false,
        })
    }

    pub fn replica(&self) -> &Replica {
        &self.replica
    }

    /// For proposals, reads, changes of membership and snapshots. Ticks and messages come in by methods of this type.
    pub fn replica_mut(&mut self) -> &mut Replica {
        &mut self.replica
    }

    pub fn store(&self) -> &Store<D> {
        &self.store
    }

    pub fn store_mut(&mut self) -> &mut Store<D> {
        &mut self.store
    }

    /// As of the last look.
    pub fn disk_is_full(&self) -> bool {
        self.disk_is_full
    }

    /// Whether this disk has room, and as many disks as have to write down what is decided.
    pub fn may_decide(&self) -> bool {
        self.may_decide
    }

    /// Raft may neither campaign nor hear anything between a snapshot and its being written; so it is while anything
    /// waits. `full` names the peers whose disks were full when they were last heard; it is asked for at a look at the
    /// disk.
    pub fn handle_tick(&mut self, full: impl FnOnce() -> BTreeSet<MemberId>) {
        if !self.is_waiting {
            self.replica.handle_tick();
        }
        self.ticks = self.ticks.wrapping_add(1);
        if self.ticks.is_multiple_of(DISK_CHECK_INTERVAL_TICKS) {
            self.look_at_disk(&full());
            self.retry_is_due = self.waiting.is_some();
        }
    }

    /// A replica without free space leaves leadership to others.
    pub fn look_at_disk(&mut self, full: &BTreeSet<MemberId>) {
        // Quotas deny what others would get.
        self.disk_is_full = self.store.look_for_room() || self.is_waiting;
        if self.disk_is_full {
            self.replica.resign(full);
        }
        self.may_decide = !self.disk_is_full && self.enough_have_room(full);
    }

    /// Whether as many have room, as far as they have said, as have to write down what is decided.
    fn enough_have_room(&self, full: &BTreeSet<MemberId>) -> bool {
        let voters = &self.replica.members().configuration.voters;
        let without = voters.iter().filter(|id| full.contains(id)).count();
        without <= voters.len().saturating_sub(1) / 2
    }

    /// What there is no room for is as good as lost on its way.
    pub fn handle_message(&mut self, message: Message) -> Result<(), LostLog> {
        let has_room = !self.disk_is_full || self.finds_room(&message);
        if has_room && !self.is_waiting {
            self.replica.handle_message(message)?;
        }
        Ok(())
    }

    /// Elections go on, with a few entries of the elected leader.
    fn finds_room(&self, message: &Message) -> bool {
        match message.kind {
            Kind::Append => message.entries.is_empty() || self.store.spares_some(),
            // Whichever coordinator leads decides things.
            Kind::Snapshot | Kind::TimeoutNow => false,
            _ => true,
        }
    }

    /// An entry is acknowledged before it comes out as applied.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        if self.retry_is_due {
            self.retry_is_due = false;
            if let Some(batch) = self.waiting.take() {
                return Some(Effect::Persist(batch));
            }
        }
        let effect = self.replica.poll_effect()?;
        if let Effect::Apply(applied) = &effect {
            self.store.acknowledge(applied.index);
        }
        Some(effect)
    }

    /// Carries out an [`Effect::Persist`]. After an error nothing may be done any longer.
    pub fn persist(&mut self, batch: Batch) -> Result<Persisted, LogError> {
        match self.store.persist(&batch) {
            // The log is as it was, and nothing was said of another.
            Err(error @ LogError::NoRoom { .. }) => {
                (self.waiting, self.is_waiting) = (Some(batch), true);
                self.replica.stop_leading();
                return Ok(Persisted::Waiting(error));
            }
            outcome => outcome?,
        }
        self.is_waiting = false;
        self.replica.handle_durable();
        Ok(Persisted::Written)
    }

    /// Carries out an [`Effect::Compact`], beside everything else. After an error the log stays as long as it is.
    pub fn compact(&mut self, whole: Batch) -> Result<(), LogError> {
        let begun = self.store.start_compaction(whole);
        begun.inspect_err(|_| self.replica.handle_not_compacted())
    }

    /// To be called now and then. Whether a shorter log took the place of the old one; one that finds no room leaves the
    /// log as it is.
    pub fn poll_compaction(&mut self) -> Result<bool, LogError> {
        let done = self.store.poll_compaction();
        match done {
            Ok(true) => self.replica.handle_compacted(),
            Ok(false) => {}
            Err(_) => self.replica.handle_not_compacted(),
        }
        done
    }
}
