//! The disk of a simulated coordinator, to which the product's log writes. [`LossyFiles`] has the faults; this module
//! has those that matter for a log.

use std::cell::Cell;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use reweave_replica::{Batch, Compaction, Journal, LogError, LogStorage, Written, write_compacted};
use reweave_sim_disk::{LossyFile, LossyFiles, TrackedBytes};

use crate::chance::Chance;

pub const LOG_NAME: &str = "log";
const REACHED_NAME: &str = "reached";
/// Files in which bits flip: the log in three of four cases.
const FLIPPED_NAMES: [&str; 4] = [LOG_NAME, LOG_NAME, LOG_NAME, REACHED_NAME];
/// A compacted file is written after fewer polls than this.
const MAX_COMPACTION_POLLS: usize = 8;

/// Cheap to clone: all clones are one disk.
#[derive(Debug, Clone)]
pub struct SimulatedDisk(LossyFiles);

/// Takes a while, and then writes all at once.
#[derive(Debug)]
pub struct SimulatedCompaction {
    files: LossyFiles,
    log: PathBuf,
    whole: Batch,
    polls_left: Cell<usize>,
}

impl SimulatedDisk {
    pub fn new(chance: Chance) -> Self {
        Self(LossyFiles::new(chance))
    }

    /// One bit, of the log or of how far it had come, if there is any.
    pub fn flip(&self) {
        let name = FLIPPED_NAMES[self.draw(FLIPPED_NAMES.len())];
        self.0.flip(Path::new(name));
    }

    /// Whether something that counts is not as it was written. What a loss of power left behind the last whole write
    /// counts for nothing.
    pub fn is_damaged(&self) -> bool {
        let log = self.look(Path::new(LOG_NAME), |log| {
            let whole = Journal::read(&log.expected).map(|journal| journal.whole_bytes);
            let whole = whole.unwrap_or(log.expected.len());
            log.actual.get(..whole) != log.expected.get(..whole)
        });
        log.unwrap_or_default() || self.differs(REACHED_NAME)
    }

    /// Whether all is as it was written, to the last byte.
    pub fn is_intact(&self) -> bool {
        let mut files = [LOG_NAME, REACHED_NAME].into_iter();
        !files.any(|name| self.differs(name))
    }

    fn differs(&self, name: &str) -> bool {
        let differs = self.look(Path::new(name), TrackedBytes::is_damaged);
        differs.unwrap_or_default()
    }
}

/// All faults of the underlying files.
impl Deref for SimulatedDisk {
    type Target = LossyFiles;

    fn deref(&self) -> &LossyFiles {
        &self.0
    }
}

impl LogStorage for SimulatedDisk {
    type Files = LossyFiles;
    type Compaction = SimulatedCompaction;

    fn files(&self) -> &LossyFiles {
        &self.0
    }

    fn compact(&self, path: &Path, whole: Batch) -> io::Result<SimulatedCompaction> {
        Ok(SimulatedCompaction {
            files: self.0.clone(),
            log: path.to_owned(),
            whole,
            polls_left: Cell::new(self.draw(MAX_COMPACTION_POLLS)),
        })
    }
}

impl Compaction for SimulatedCompaction {
    type File = LossyFile;

    fn is_written(&self) -> bool {
        let left = self.polls_left.get();
        self.polls_left.set(left.saturating_sub(1));
        left == 0
    }

    fn finish(self) -> Result<Written<LossyFile>, LogError> {
        write_compacted(&self.files, &self.log, &self.whole)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use reweave_files::{FileHandle, FileSystem};

    use super::*;

    #[test]
    fn damage_differs_from_torn_write() {
        let disk = SimulatedDisk::new(Chance::of(1));
        let mut file = disk.create(Path::new(LOG_NAME)).expect("there is room");
        let batch = Batch {
            is_whole: true,
            ..Batch::default()
        };
        append_batch(&disk, &mut file, &batch);
        disk.sync_folder(Path::new("")).expect("there is power");
        assert!(disk.is_intact() && !disk.is_damaged());
        disk.misdirect();
        append_batch(&disk, &mut file, &Batch::default());
        assert!(!disk.is_intact() && disk.is_damaged());
    }

    fn append_batch(disk: &SimulatedDisk, file: &mut LossyFile, batch: &Batch) {
        let end = disk.read(Path::new(LOG_NAME)).expect("it is there").len();
        let bytes = batch.encode(end as u64).expect("it can be written");
        file.write_all(&bytes).expect("there is room");
        file.sync_data().expect("there is power");
    }
}
