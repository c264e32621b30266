//! A replica's durable records, in a file that is appended to or replaced as a whole.
//!
//! Pure: bytes in and out. After a crash, all records of a [`Batch`] are there or none. A durable batch is intact, or
//! the file is reported as damaged.

mod frame;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::exact::decode_exact;
use crate::wire::{Configuration, Entry, MemberId, Snapshot, Vote};
pub use frame::Tail;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// Identifies the owner of the file.
    Head {
        member: MemberId,
        /// Data of the caller.
        head: Vec<u8>,
    },
    /// Replaces all earlier entries, and all that do not follow it.
    Snapshot(Snapshot),
    /// Replaces all entries from its index on.
    Entry(Entry),
    Vote(Vote),
}

/// Records that are written atomically.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    pub records: Vec<Record>,
    /// Replaces everything before it.
    pub is_whole: bool,
}

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    pub member: MemberId,
    pub head: Vec<u8>,
    pub snapshot: Snapshot,
    /// The entries after the snapshot.
    pub entries: Vec<Entry>,
    pub vote: Vote,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JournalError {
    /// The file is no log, or differs from what was written.
    #[error("checksum error at byte {at}")]
    Damaged { at: usize },
    #[error("it was written by another version (it begins with {begins:?})")]
    OtherVersion { begins: String },
    #[error("it was written by another version: batch {batch} cannot be read")]
    Foreign {
        batch: usize,
        source: postcard::Error,
    },
    #[error("its records do not follow each other: entry {found} comes after {last}")]
    Gap { last: u64, found: u64 },
    #[error("it does not begin with whose it is")]
    Headless,
    #[error("a batch cannot be written")]
    Unwritable(#[source] postcard::Error),
}

/// The content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal {
    pub saved: Saved,
    /// Bytes after this offset were never made durable and do not count.
    pub whole_bytes: usize,
}

impl Journal {
    pub fn read(content: &[u8]) -> Result<Self, JournalError> {
        let scan = frame::scan(content)?;
        let whole_bytes = match scan.tail {
            Tail::Whole => content.len(),
            Tail::Torn { at } => at,
            Tail::Damaged { at } => return Err(JournalError::Damaged { at }),
        };
        let mut saved = None;
        for (batch, payload) in scan.payloads.iter().enumerate() {
            let foreign = |source| JournalError::Foreign { batch, source };
            let records: Vec<Record> = decode_exact(payload).map_err(foreign)?;
            for record in records {
                saved = Some(follow(saved, record)?);
            }
        }
        // A file is created with its first batch.
        let saved = saved.ok_or(JournalError::Headless)?;
        Ok(Self { saved, whole_bytes })
    }
}

impl Batch {
    /// The bytes of this batch for a file that ends at `end`; 0 for a new file.
    pub fn encode(&self, end: u64) -> Result<Vec<u8>, JournalError> {
        let payload = postcard::to_stdvec(&self.records).map_err(JournalError::Unwritable)?;
        let mut bytes = Vec::with_capacity(payload.len() + 64);
        if self.is_whole {
            bytes.extend_from_slice(frame::MAGIC);
        }
        let place = end + bytes.len() as u64;
        frame::append(&mut bytes, place, payload);
        Ok(bytes)
    }
}

/// Applies a record. The head comes first.
fn follow(saved: Option<Saved>, record: Record) -> Result<Saved, JournalError> {
    if let Record::Head { member, head } = record {
        return Ok(Saved::begun(member, head));
    }
    let mut saved = saved.ok_or(JournalError::Headless)?;
    match record {
        Record::Snapshot(snapshot) => {
            saved.snapshot = snapshot;
            saved.entries.clear();
        }
        Record::Entry(entry) => saved.push(entry)?,
        Record::Vote(vote) => saved.vote = vote,
        Record::Head { .. } => {}
    }
    saved.vote.commit = saved.vote.commit.max(saved.snapshot.index);
    Ok(saved)
}

impl Saved {
    fn begun(member: MemberId, head: Vec<u8>) -> Self {
        Self {
            member,
            head,
            snapshot: Snapshot {
                index: 0,
                term: 0,
                configuration: Configuration::default(),
                data: Vec::new(),
            },
            entries: Vec::new(),
            vote: Vote::default(),
        }
    }

    /// The index of the last entry.
    pub fn last(&self) -> u64 {
        self.entries
            .last()
            .map_or(self.snapshot.index, |entry| entry.index)
    }

    fn push(&mut self, entry: Entry) -> Result<(), JournalError> {
        let last = self.last();
        let gap = JournalError::Gap {
            last,
            found: entry.index,
        };
        if entry.index > last + 1 || entry.index <= self.snapshot.index {
            return Err(gap);
        }
        let kept = entry.index - self.snapshot.index - 1;
        // At most as many as there are.
        self.entries.truncate(usize::try_from(kept).unwrap_or(0));
        self.entries.push(entry);
        Ok(())
    }

    /// Everything as one batch, for a new file.
    pub fn whole(&self) -> Batch {
        let head = Record::Head {
            member: self.member,
            head: self.head.clone(),
        };
        let mut records = vec![head, Record::Snapshot(self.snapshot.clone())];
        records.push(Record::Vote(self.vote));
        records.extend(self.entries.iter().cloned().map(Record::Entry));
        Batch {
            records,
            is_whole: true,
        }
    }
}
