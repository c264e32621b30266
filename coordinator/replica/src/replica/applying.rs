//! Applies committed entries and snapshots.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use raft::eraftpb::{Entry, EntryType, Snapshot as RaftSnapshot};
use serde::{Deserialize, Serialize};

use super::{Envelope, Replica};
use crate::change::{Change, Members, steps_in};
use crate::effect::{Applied, Effect, RequestId, StateOversized};
use crate::exact::decode_exact;
use crate::wire::{EntryContent, Snapshot};

/// The limit of a state. Peers get a snapshot in one message of at most 256 MiB, with members, requests and framing.
pub const MAX_STATE_BYTES: usize = (256 << 20) - (1 << 20);

/// The content of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    pub request: RequestId,
    pub payload: Vec<u8>,
}

impl Proposal {
    /// None for entries with other content, or that this version does not know.
    pub fn of(entry: &crate::wire::Entry) -> Option<Self> {
        match &entry.content {
            EntryContent::Proposal(data) => decode_exact(data).ok(),
            EntryContent::Membership { .. } => None,
        }
    }
}

/// A requested snapshot, and the state of the replica at the request.
pub(super) struct SnapshotDue {
    index: u64,
    term: u64,
    members: Members,
    requests: BTreeMap<u64, u64>,
}

impl Replica {
    pub(super) fn apply(&mut self, entries: Vec<Entry>) {
        let Some(last) = entries.last().map(|entry| entry.index) else {
            return;
        };
        for entry in entries {
            self.apply_one(&entry);
            (self.applied, self.applied_term) = (entry.index, entry.term);
        }
        self.node.advance_apply_to(last);
        self.release_reads();
    }

    fn apply_one(&mut self, entry: &Entry) {
        match entry.get_entry_type() {
            // The first entry of a new leader is empty.
            EntryType::EntryNormal if entry.data.is_empty() => {}
            EntryType::EntryNormal => self.apply_proposal(entry),
            EntryType::EntryConfChange | EntryType::EntryConfChangeV2 => self.apply_change(entry),
        }
    }

    fn apply_proposal(&mut self, entry: &Entry) {
        let index = entry.index;
        let Ok(Proposal { request, payload }) = decode_exact(&entry.data) else {
            return self.effects.push_back(Effect::Unreadable { index });
        };
        let highest = self.requests.entry(request.client).or_default();
        match request.number.cmp(highest) {
            Ordering::Less => return,
            Ordering::Equal => return self.effects.push_back(Effect::Repeated(request)),
            Ordering::Greater => *highest = request.number,
        }
        self.bytes_applied += payload.len();
        self.effects.push_back(Effect::Apply(Applied {
            index,
            request,
            payload,
        }));
    }

    fn apply_change(&mut self, entry: &Entry) {
        let Some(steps) = steps_in(&entry.data) else {
            return;
        };
        let change = decode_exact::<Change>(&entry.context).ok();
        // Leaving a joint configuration has no change of its own.
        if let Some(change) = &change {
            self.members.apply(change);
        }
        // Raft refuses an invalid change on all replicas alike.
        if let Ok(state) = self.node.apply_conf_change(&steps) {
            self.configure(state);
        }
    }

    pub(super) fn restore(&mut self, index: u64) {
        let snapshot = self.node.raft.store().snapshot();
        let (data, about) = (&snapshot.data, snapshot.get_metadata());
        let term = about.term;
        let Some(envelope) = Envelope::decode(data) else {
            return self.effects.push_back(Effect::Unreadable { index });
        };
        self.members = envelope.members;
        self.requests = envelope.requests;
        (self.applied, self.applied_term) = (index, term);
        (self.snapshot_due, self.bytes_applied) = (None, 0);
        self.node.advance_apply_to(index);
        let state = envelope.state;
        self.effects.push_back(Effect::Restore { index, state });
        let members = self.members.clone();
        self.effects.push_back(Effect::Membership(members));
        self.report_pending_members();
    }

    /// Requires that the file begins with a snapshot of this entry or a later one, for builds that cannot read all
    /// earlier entries.
    pub fn compact_to(&mut self, index: u64) {
        self.compact_to = self.compact_to.max(index);
    }

    /// Whether a snapshot was requested just now.
    pub(super) fn wants_snapshot(&mut self) -> bool {
        let rests = self.compaction_retry.is_some_and(|at| self.ticks < at);
        if rests || self.compacting.is_some() || self.snapshot_due.is_some() {
            return false;
        }
        let memory = self.node.raft.store();
        let begins = memory.snapshot().get_metadata().index;
        let since = self.applied - begins;
        let is_wanted = memory.take_snapshot_wanted()
            || begins < self.compact_to
            || self.compaction_retry.is_some()
            || since >= self.timing.entries_per_snapshot
            || self.bytes_applied >= self.timing.bytes_per_snapshot;
        if !is_wanted || since == 0 {
            return false;
        }
        self.compaction_retry = None;
        let index = self.applied;
        self.snapshot_due = Some(SnapshotDue {
            index,
            term: self.applied_term,
            members: self.members.clone(),
            requests: self.requests.clone(),
        });
        self.effects.push_back(Effect::TakeSnapshot { index });
        true
    }

    /// Takes the snapshot that [`Effect::TakeSnapshot`] requested. A snapshot of any other index is ignored. An
    /// oversized one is refused: the log continues from the previous snapshot, peers with that one get the entries
    /// since, and it is requested again.
    pub fn handle_snapshot(&mut self, index: u64, state: Vec<u8>) -> Result<(), StateOversized> {
        let Some(due) = self.snapshot_due.take_if(|due| due.index == index) else {
            return Ok(());
        };
        if state.len() > MAX_STATE_BYTES {
            self.retry_compaction();
            return Err(StateOversized {
                length_bytes: state.len(),
                limit_bytes: MAX_STATE_BYTES,
            });
        }
        let configuration = due.members.configuration.clone();
        let envelope = Envelope {
            members: due.members,
            requests: due.requests,
            state,
        };
        let snapshot = Snapshot {
            index,
            term: due.term,
            configuration,
            data: envelope.encode(),
        };
        self.bytes_applied = 0;
        self.compact(snapshot.into_raft());
        Ok(())
    }

    /// Until the file begins with the new snapshot, the previous one stays in use.
    fn compact(&mut self, snapshot: RaftSnapshot) {
        let whole = self.whole(&snapshot);
        self.compacting = Some(snapshot);
        self.effects.push_back(Effect::Compact(whole));
    }

    /// The file was replaced as the last [`Effect::Compact`] requested.
    pub fn handle_compacted(&mut self) {
        if let Some(snapshot) = self.compacting.take() {
            let kept = self.timing.kept_entries;
            let memory = self.node.raft.mut_store();
            memory.compact(snapshot, kept);
            // Peers that need it ask again.
            memory.take_snapshot_wanted();
        }
    }

    /// The file is unchanged. The compaction will be requested again.
    pub fn handle_not_compacted(&mut self) {
        if self.compacting.take().is_some() {
            self.retry_compaction();
        }
    }

    fn retry_compaction(&mut self) {
        let at = self.ticks + self.timing.compaction_retry_ticks;
        self.compaction_retry = Some(at);
    }
}
