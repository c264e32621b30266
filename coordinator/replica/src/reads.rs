//! Pending reads: each waits until a quorum has confirmed that this replica still leads, and until all entries that
//! were committed by then have been applied.

use std::collections::BTreeMap;

use crate::effect::ReadId;

#[derive(Debug, Default)]
pub(crate) struct Reads {
    /// Not requested yet.
    new: Vec<ReadId>,
    /// Requested, by the number of the request.
    asked: BTreeMap<u64, ReadBatch>,
    /// Confirmed, and waiting until this index is applied.
    confirmed: Vec<(u64, Vec<ReadId>)>,
    last: u64,
}

#[derive(Debug)]
struct ReadBatch {
    reads: Vec<ReadId>,
    ticks: usize,
}

impl Reads {
    pub(crate) fn push(&mut self, read: ReadId) {
        self.new.push(read);
    }

    /// Requests all new reads together, under this number.
    pub(crate) fn ask(&mut self) -> Option<u64> {
        if self.new.is_empty() {
            return None;
        }
        self.last += 1;
        let reads = std::mem::take(&mut self.new);
        self.asked.insert(self.last, ReadBatch { reads, ticks: 0 });
        Some(self.last)
    }

    /// Repeats requests that were unanswered for too long.
    pub(crate) fn tick(&mut self, patience: usize) {
        let mut late = Vec::new();
        self.asked.retain(|_, asked| {
            asked.ticks += 1;
            let is_late = asked.ticks >= patience;
            if is_late {
                late.append(&mut asked.reads);
            }
            !is_late
        });
        self.new.append(&mut late);
    }

    pub(crate) fn confirm(&mut self, number: u64, index: u64) {
        if let Some(asked) = self.asked.remove(&number) {
            self.confirmed.push((index, asked.reads));
        }
    }

    pub(crate) fn take_ready(&mut self, applied: u64) -> Vec<ReadId> {
        let ready = self
            .confirmed
            .extract_if(.., |(index, _)| *index <= applied);
        ready.flat_map(|(_, reads)| reads).collect()
    }

    pub(crate) fn take_all(&mut self) -> Vec<ReadId> {
        let asked = std::mem::take(&mut self.asked).into_values();
        let confirmed = std::mem::take(&mut self.confirmed).into_iter();
        let asked = asked.flat_map(|asked| asked.reads);
        let confirmed = confirmed.flat_map(|(_, reads)| reads);
        let new = std::mem::take(&mut self.new);
        confirmed.chain(asked).chain(new).collect()
    }
}
