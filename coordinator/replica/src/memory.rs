//! The part of the log in memory, as Raft reads it.

use std::cell::Cell;
use std::collections::VecDeque;

use raft::eraftpb::{ConfState, Entry, HardState, Snapshot};
use raft::util::limit_size;
use raft::{Error, GetEntriesContext, RaftState, Result, Storage, StorageError};

use crate::journal::Saved;

#[derive(Debug, Default)]
pub(crate) struct Memory {
    vote: HardState,
    /// The configuration after the applied entries.
    configuration: ConfState,
    snapshot: Snapshot,
    /// Index and term of the entry before the first one here.
    before: (u64, u64),
    entries: VecDeque<Entry>,
    /// A peer needs a newer snapshot than this one.
    snapshot_wanted: Cell<bool>,
}

impl Memory {
    pub(crate) fn of(saved: &Saved) -> Self {
        let snapshot = saved.snapshot.clone().into_raft();
        let entries = saved.entries.iter().cloned();
        Self {
            vote: saved.vote.into(),
            configuration: snapshot.get_metadata().get_conf_state().clone(),
            before: (saved.snapshot.index, saved.snapshot.term),
            snapshot,
            entries: entries.map(crate::wire::Entry::into_raft).collect(),
            snapshot_wanted: Cell::new(false),
        }
    }

    pub(crate) fn vote(&self) -> &HardState {
        &self.vote
    }

    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// All entries after this index.
    pub(crate) fn after(&self, index: u64) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(move |entry| entry.index > index)
    }

    pub(crate) fn take_snapshot_wanted(&self) -> bool {
        self.snapshot_wanted.take()
    }

    pub(crate) fn set_vote(&mut self, vote: HardState) {
        self.vote = vote;
    }

    pub(crate) fn configure(&mut self, configuration: ConfState) {
        self.configuration = configuration;
    }

    /// Replaces all entries from the first of these on.
    pub(crate) fn append(&mut self, entries: &[Entry]) {
        let Some(first) = entries.first() else { return };
        let kept = self
            .entries
            .partition_point(|held| held.index < first.index);
        self.entries.truncate(kept);
        self.entries.extend(entries.iter().cloned());
    }

    /// Replaces everything.
    pub(crate) fn restore(&mut self, snapshot: Snapshot) {
        let about = snapshot.get_metadata();
        self.before = (about.index, about.term);
        self.configuration = about.get_conf_state().clone();
        self.entries.clear();
        self.snapshot = snapshot;
    }

    /// Takes a newer snapshot, and drops the entries before it.
    pub(crate) fn compact(&mut self, snapshot: Snapshot, kept: u64) {
        let until = snapshot.get_metadata().index.saturating_sub(kept);
        self.snapshot = snapshot;
        while let Some(gone) = self.entries.pop_front_if(|entry| entry.index <= until) {
            self.before = (gone.index, gone.term);
        }
    }

    fn first(&self) -> u64 {
        self.before.0 + 1
    }

    fn last(&self) -> u64 {
        self.before.0 + self.entries.len() as u64
    }

    fn position(&self, index: u64) -> Result<usize> {
        if index < self.first() {
            return Err(Error::Store(StorageError::Compacted));
        }
        // The number of entries in memory fits.
        Ok(usize::try_from(index - self.first()).unwrap_or(usize::MAX))
    }

    fn serves(&self, request_index: u64, to: u64) -> bool {
        let about = self.snapshot.get_metadata();
        let state = about.get_conf_state();
        let lists = [state.get_voters(), state.get_learners()];
        about.index >= request_index && lists.iter().any(|ids| ids.contains(&to))
    }
}

impl Storage for Memory {
    fn initial_state(&self) -> Result<RaftState> {
        Ok(RaftState::new(
            self.vote.clone(),
            self.configuration.clone(),
        ))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        _: GetEntriesContext,
    ) -> Result<Vec<Entry>> {
        let (low, high) = (self.position(low)?, self.position(high)?);
        if high > self.entries.len() {
            return Err(Error::Store(StorageError::Unavailable));
        }
        let mut entries: Vec<_> = self.entries.range(low..high).cloned().collect();
        limit_size(&mut entries, max_size.into());
        Ok(entries)
    }

    fn term(&self, index: u64) -> Result<u64> {
        if index == self.before.0 {
            return Ok(self.before.1);
        }
        let entry = self.entries.get(self.position(index)?);
        entry
            .map(|entry| entry.term)
            .ok_or(Error::Store(StorageError::Unavailable))
    }

    fn first_index(&self) -> Result<u64> {
        Ok(self.first())
    }

    fn last_index(&self) -> Result<u64> {
        Ok(self.last())
    }

    /// The snapshot for this peer, which must be in its configuration.
    fn snapshot(&self, request_index: u64, to: u64) -> Result<Snapshot> {
        if self.serves(request_index, to) {
            return Ok(self.snapshot.clone());
        }
        self.snapshot_wanted.set(true);
        Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable))
    }
}
