//! What is in one file: as it is read, and as much of it as a loss of power leaves.

use std::collections::BTreeMap;
use std::mem;

use crate::chance::Chance;

/// Disks write sectors as a whole.
const SECTOR_BYTES: usize = 512;
/// Behind the end of a file, where a write to the wrong place may land.
const MAX_STRAY_SECTORS: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct FileContent {
    pub(crate) is_folder: bool,
    /// As it is read.
    pub(crate) now: TrackedBytes,
    pub(crate) synced: TrackedBytes,
    unsynced: Vec<Change>,
    /// How long writes were, by where they began.
    writes: BTreeMap<usize, usize>,
    pub(crate) reserved_until: u64,
}

/// The content of a file, twice: a difference is damage.
#[derive(Debug, Clone, Default)]
pub struct TrackedBytes {
    /// What the disk returns.
    pub actual: Vec<u8>,
    /// What was written, at the place where it belongs.
    pub expected: Vec<u8>,
}

#[derive(Debug)]
pub(crate) enum Change {
    Write {
        at: usize,
        /// Somewhere else, where it is misdirected.
        lands: usize,
        bytes: Vec<u8>,
    },
    Truncate(usize),
}

impl FileContent {
    pub(crate) fn folder() -> Self {
        Self {
            is_folder: true,
            ..Self::default()
        }
    }

    pub(crate) fn allocated(&self) -> u64 {
        self.reserved_until.max(self.now.expected.len() as u64)
    }

    /// How many bytes can be written from here on.
    pub(crate) fn room(&self, at: usize, free: u64) -> usize {
        let room = (self.allocated() + free).saturating_sub(at as u64);
        usize::try_from(room).unwrap_or(usize::MAX)
    }

    pub(crate) fn change(&mut self, change: Change) {
        match &change {
            // What was kept behind the end is free again, too.
            Change::Truncate(length) => {
                self.writes.retain(|at, _| at < length);
                self.reserved_until = *length as u64;
            }
            Change::Write { at, bytes, .. } => {
                self.writes.insert(*at, bytes.len());
            }
        }
        self.now.change(&change);
        self.unsynced.push(change);
    }

    pub(crate) fn sync(&mut self) {
        for change in mem::take(&mut self.unsynced) {
            self.synced.change(&change);
        }
    }

    /// As Linux does with what it could not write.
    pub(crate) fn drop_unsynced(&mut self) {
        self.unsynced.clear();
        self.now.clone_from(&self.synced);
    }

    pub(crate) fn lose_power(&mut self, chance: &mut Chance) {
        for change in mem::take(&mut self.unsynced) {
            match change {
                Change::Truncate(length) => {
                    if chance.happens(0.5) {
                        self.synced.truncate(length);
                    }
                }
                Change::Write { at, lands, bytes } => {
                    self.synced.write_in_part([at, lands], &bytes, chance);
                }
            }
        }
        self.now.clone_from(&self.synced);
    }

    /// At most these bytes are kept of what was appended. What was cut stays so unless none are.
    pub(crate) fn keep(&mut self, kept_bytes: usize) {
        let synced_bytes = self.synced.actual.len();
        if self.now.actual.starts_with(&self.synced.actual) {
            let length = (synced_bytes + kept_bytes).min(self.now.actual.len());
            self.now.truncate(length);
            self.synced.clone_from(&self.now);
        } else if kept_bytes > 0 {
            self.synced.clone_from(&self.now);
        }
        self.drop_unsynced();
    }

    /// What is in memory is what was read from there.
    pub(crate) fn flip(&mut self, bit: usize) {
        for bytes in [&mut self.synced, &mut self.now] {
            if let Some(byte) = bytes.actual.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
        }
    }

    /// A start has taken what it found for what was written.
    pub(crate) fn believe(&mut self) {
        for bytes in [&mut self.now, &mut self.synced] {
            bytes.expected.clone_from(&bytes.actual);
        }
    }

    /// Where an older write began, one as long if there is any: there it passes for that, unless batches say where they
    /// belong. Or off by whole sectors, as a block is that goes to another address.
    pub(crate) fn wrong_place(&self, [at, length]: [usize; 2], drawn: usize) -> usize {
        let older: Vec<_> = self.writes.range(..at).collect();
        let alike = older.iter().filter(|(_, other)| **other == length);
        let alike: Vec<_> = alike.copied().collect();
        let begins = if alike.is_empty() { &older } else { &alike };
        match begins.get(drawn / 2 % begins.len().max(1)) {
            Some((begin, _)) if drawn.is_multiple_of(2) => **begin,
            _ => self.sector_away(at, drawn),
        }
    }

    fn sector_away(&self, at: usize, drawn: usize) -> usize {
        let sectors = self.now.expected.len() / SECTOR_BYTES;
        // The last of them lies behind the end, so far that no write to come reaches it before a start: a torn one over it
        // would look like any torn write.
        let sectors = (0..sectors).chain([sectors + MAX_STRAY_SECTORS]);
        let places = sectors.map(|sector| sector * SECTOR_BYTES + at % SECTOR_BYTES);
        let wrong: Vec<_> = places.filter(|place| *place != at).collect();
        wrong[drawn % wrong.len()]
    }
}

impl TrackedBytes {
    /// Whether the disk returns something else than was written.
    pub fn is_damaged(&self) -> bool {
        self.actual != self.expected
    }

    fn change(&mut self, change: &Change) {
        match change {
            Change::Truncate(length) => self.truncate(*length),
            Change::Write { at, lands, bytes } => self.write([*at, *lands], bytes),
        }
    }

    fn truncate(&mut self, length: usize) {
        self.expected.truncate(length);
        self.actual.truncate(length);
    }

    /// What was never written reads as zeros.
    fn lengthen(&mut self, [expected, actual]: [usize; 2]) {
        self.expected.resize(expected.max(self.expected.len()), 0);
        self.actual.resize(actual.max(self.actual.len()), 0);
    }

    fn write(&mut self, [at, lands]: [usize; 2], bytes: &[u8]) {
        let ends = [at, lands].map(|begin| begin + bytes.len());
        self.lengthen(ends);
        self.expected[at..ends[0]].copy_from_slice(bytes);
        self.actual[lands..ends[1]].copy_from_slice(bytes);
    }

    /// It is there or not, or some sectors of it are. What is appended may end anywhere.
    fn write_in_part(&mut self, [at, lands]: [usize; 2], bytes: &[u8], chance: &mut Chance) {
        let is_appended = at >= self.expected.len();
        match chance.below(4) {
            0 => {}
            1 if is_appended => {
                let length = chance.below(bytes.len() + 1);
                self.write([at, lands], &bytes[..length]);
            }
            2 => {
                self.lengthen([at, lands].map(|begin| begin + bytes.len()));
                for (offset, sector) in sectors(at, bytes) {
                    if chance.happens(0.5) {
                        self.write([at, lands].map(|begin| begin + offset), sector);
                    }
                }
            }
            _ => self.write([at, lands], bytes),
        }
    }
}

/// What of this lies in one sector each when it is written here, and how far from its begin.
fn sectors(at: usize, bytes: &[u8]) -> Vec<(usize, &[u8])> {
    let mut sectors = Vec::new();
    let mut begin = 0;
    while begin < bytes.len() {
        let end = begin + SECTOR_BYTES - (at + begin) % SECTOR_BYTES;
        let end = end.min(bytes.len());
        sectors.push((begin, &bytes[begin..end]));
        begin = end;
    }
    sectors
}
