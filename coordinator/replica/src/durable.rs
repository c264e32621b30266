//! A replica with its log on a disk.
//!
//! A full disk must cost no more than necessary. Elections go on in the reserved space, other coordinators lead, and
//! nothing new is decided until there is space again. On a file system without a reserve, writes wait for space.

use std::collections::BTreeSet;

use crate::effect::{Effect, LostLog, StartError};
use crate::journal::{Batch, Saved};
use crate::log_storage::LogStorage;
use crate::replica::Replica;
use crate::store::{LogError, Store};
use crate::timing::Timing;
use crate::wire::{Kind, MemberId, Message};

/// The interval between checks of the disk, in ticks.
pub const DISK_CHECK_INTERVAL_TICKS: u32 = 100;

/// Used like a [`Replica`], except that [`persist`](Self::persist) executes an [`Effect::Persist`] and
/// [`compact`](Self::compact) an [`Effect::Compact`].
#[derive(Debug)]
pub struct DurableReplica<D: LogStorage> {
    replica: Replica,
    store: Store<D>,
    ticks: u32,
    disk_is_full: bool,
    may_decide: bool,
    /// A batch that did not fit on the disk.
    waiting: Option<Batch>,
    /// The disk was checked since, so the waiting batch is to be written now.
    retry_is_due: bool,
    /// True from the first failed write of the batch until it is written.
    is_waiting: bool,
}

/// The result of writing a batch.
#[derive(Debug)]
pub enum Persisted {
    /// The batch survives a power loss.
    Written,
    /// The disk was full. The batch is returned again as [`Effect::Persist`].
    Waiting(LogError),
}

impl<D: LogStorage> DurableReplica<D> {
    /// Continues from the content of this log.
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

    /// For proposals, reads, membership changes and snapshots. Ticks and messages go through methods of this type.
    pub fn replica_mut(&mut self) -> &mut Replica {
        &mut self.replica
    }

    pub fn store(&self) -> &Store<D> {
        &self.store
    }

    pub fn store_mut(&mut self) -> &mut Store<D> {
        &mut self.store
    }

    /// The result of the last check.
    pub fn disk_is_full(&self) -> bool {
        self.disk_is_full
    }

    /// Whether this disk and those of a quorum have space.
    pub fn may_decide(&self) -> bool {
        self.may_decide
    }

    /// Handles a tick. While a batch waits, Raft must neither campaign nor receive messages: the batch may contain a
    /// snapshot. `full` returns the peers whose disks were full at their last report, and is called at each check of
    /// the disk.
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

    /// Checks the disk. A replica without free space gives up leadership.
    pub fn look_at_disk(&mut self, full: &BTreeSet<MemberId>) {
        // A quota may refuse writes although the file system has space.
        self.disk_is_full = self.store.look_for_room() || self.is_waiting;
        if self.disk_is_full {
            self.replica.resign(full);
        }
        self.may_decide = !self.disk_is_full && self.enough_have_room(full);
    }

    /// Whether a quorum has space, by the last reports.
    fn enough_have_room(&self, full: &BTreeSet<MemberId>) -> bool {
        let voters = &self.replica.members().configuration.voters;
        let without = voters.iter().filter(|id| full.contains(id)).count();
        without <= voters.len().saturating_sub(1) / 2
    }

    /// Drops a message whose entries do not fit, as if it were lost.
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
            // These would make this replica leader, or need much space.
            Kind::Snapshot | Kind::TimeoutNow => false,
            _ => true,
        }
    }

    /// The next effect. An entry is acknowledged in the log's reach before it is applied.
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

    /// Executes an [`Effect::Persist`]. After an error, the log must not be used any more.
    pub fn persist(&mut self, batch: Batch) -> Result<Persisted, LogError> {
        match self.store.persist(&batch) {
            // The log is unchanged, and nothing was acknowledged.
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

    /// Starts an [`Effect::Compact`] in the background. After an error, the log keeps its length.
    pub fn compact(&mut self, whole: Batch) -> Result<(), LogError> {
        let begun = self.store.start_compaction(whole);
        begun.inspect_err(|_| self.replica.handle_not_compacted())
    }

    /// Completes a compaction once it is written; to be called regularly. Returns whether it replaced the log. Without
    /// disk space, the log is unchanged.
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
