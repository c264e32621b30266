//! A replica's durable records, in a file that only grows, or is replaced as a whole.
//!
//! Pure: bytes in and out. After a crash, all records of one [`Batch`] are there or none. A durable batch is intact,
//! or the file is known to be damaged.

mod frame;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::exact::decode_exact;
use crate::wire::{Configuration, Entry, MemberId, Snapshot, Vote};
pub use frame::Tail;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// Whose file this is.
    Head {
        member: MemberId,
        /// What else the shell wants to know of it.
        head: Vec<u8>,
    },
    /// Takes the place of all entries before, and of those that do not follow it.
    Snapshot(Snapshot),
    /// Takes the place of all entries from its index on.
    Entry(Entry),
    Vote(Vote),
}

/// Records that are written atomically.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    pub records: Vec<Record>,
    /// Takes the place of everything before.
    pub is_whole: bool,
}

/// The state that the records of a file result in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    pub member: MemberId,
    pub head: Vec<u8>,
    pub snapshot: Snapshot,
    /// Those after the snapshot.
    pub entries: Vec<Entry>,
    pub vote: Vote,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JournalError {
    /// Not a file of ours at all, or not what was written there.
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
    /// Only the content up to here counts; what lies behind was never made durable.
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
        // A file is put in place with its first batch in it.
        let saved = saved.ok_or(JournalError::Headless)?;
        Ok(Self { saved, whole_bytes })
    }
}

impl Batch {
    /// As it is appended to a file that ends here, or as the file that takes the place of the old one: that begins at 0.
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

/// The head comes first.
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
        // No more than are there.
        self.entries.truncate(usize::try_from(kept).unwrap_or(0));
        self.entries.push(entry);
        Ok(())
    }

    /// All of it as one batch, to begin a file with.
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
