//! A disk that loses power: what was not synced by then is there in part, or not at all.

use reweave_replica::{Batch, Journal, JournalError, Saved};
use reweave_tests::world::chance::Chance;

const SECTOR_BYTES: usize = 512;

#[derive(Debug, Default)]
pub(crate) struct Disk {
    content: Vec<u8>,
    writing: Option<Write>,
    pub(crate) writes: u64,
}

#[derive(Debug)]
struct Write {
    bytes: Vec<u8>,
    is_whole: bool,
}

impl Disk {
    /// Of a replica that begins.
    pub(crate) fn of(saved: &Saved) -> Self {
        let content = saved.whole().encode().expect("it can be written");
        Self {
            content,
            ..Self::default()
        }
    }

    pub(crate) fn write(&mut self, batch: &Batch) {
        let bytes = batch.encode().expect("it can be written");
        let is_whole = batch.is_whole;
        self.writes += 1;
        assert!(self.writing.is_none(), "one write at a time");
        self.writing = Some(Write { bytes, is_whole });
    }

    pub(crate) fn sync(&mut self) {
        let Some(write) = self.writing.take() else {
            return;
        };
        if write.is_whole {
            self.content.clear();
        }
        self.content.extend(write.bytes);
    }

    /// A new file has its name or not; of what is appended, sectors are there or not.
    pub(crate) fn lose_power(&mut self, chance: &mut Chance) {
        let Some(write) = self.writing.take() else {
            return;
        };
        match (write.is_whole, chance.below(4)) {
            (true, 0 | 1) => self.content = write.bytes,
            (true, _) | (false, 0) => {}
            (false, 1) => {
                let length = chance.below(write.bytes.len() + 1);
                self.content.extend(&write.bytes[..length]);
            }
            (false, _) => self.append_sectors(&write.bytes, chance),
        }
    }

    fn append_sectors(&mut self, bytes: &[u8], chance: &mut Chance) {
        let begin = self.content.len();
        self.content.extend(bytes);
        let mut at = begin;
        while at < self.content.len() {
            let end = ((at / SECTOR_BYTES + 1) * SECTOR_BYTES).min(self.content.len());
            if chance.happens(0.5) {
                self.content[at..end].fill(0);
            }
            at = end;
        }
    }

    /// What is found there by whoever only looks.
    pub(crate) fn look(&self) -> Result<Saved, JournalError> {
        Ok(Journal::read(&self.content)?.saved)
    }

    /// What is found there by whoever starts anew, and goes on from.
    pub(crate) fn read(&mut self) -> Result<Saved, JournalError> {
        let journal = Journal::read(&self.content)?;
        self.content.truncate(journal.whole_bytes);
        Ok(journal.saved)
    }
}
