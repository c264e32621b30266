//! The log on disk: one file that is appended to or replaced as a whole.
//!
//! An incomplete write at its end was never acknowledged, and is cut off. Any other difference from what was written,
//! or fewer records than were acknowledged, means a damaged file, and the coordinator does not start. After the first
//! error nothing more is written, because it is unknown what reached the disk. One case is harmless: the part of an
//! append that fitted on a full disk is cut off again.
//!
//! The [`LogStorage`] writes a compacted file beside the log: that may take a second, and heartbeats go on meanwhile.
//! Appends go to the old file until then, and to the end of the new one before it replaces the old one.

mod error;
mod reached;
mod reserve;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use reweave_files::{FileHandle, FileSystem, remove_beside, take_place, write_beside};

use crate::journal::{Batch, Journal, JournalError, Record, Saved};
use crate::log_storage::{Compaction, LogFile, LogStorage};
pub use error::LogError;
use error::{failed, is_lack, replace_error};
use reached::{Reach, Reached, expect_all, expect_none, found};
use reserve::DiskReserve;
pub use reserve::MIN_FREE_BYTES;

#[derive(Debug)]
pub struct Store<D: LogStorage> {
    disk: D,
    path: PathBuf,
    file: LogFile<D>,
    /// The end of the file.
    end: u64,
    reserve: DiskReserve,
    reached: Reached<LogFile<D>>,
    compaction: Option<Underway<D::Compaction>>,
    warning: Option<LogError>,
}

/// A compaction in progress.
#[derive(Debug)]
struct Underway<C> {
    compaction: C,
    /// Batches appended to the old file since. In the new file their offsets differ.
    tail: Vec<Batch>,
}

/// A compacted file, durable beside the log.
#[derive(Debug)]
pub struct Written<F> {
    pub file: F,
    /// The length in bytes.
    pub length: usize,
}

/// A log and its content.
#[derive(Debug)]
pub struct Opened<D: LogStorage> {
    pub store: Store<D>,
    pub saved: Saved,
    /// The bytes of an incomplete write that were cut off.
    pub torn_bytes: u64,
}

impl<D: LogStorage> Store<D> {
    /// Opens the log, or creates it with this batch.
    pub fn open(disk: D, path: &Path, beginning: Option<Saved>) -> Result<Opened<D>, LogError> {
        match (disk.files().read(path), beginning) {
            (Ok(content), _) => {
                let reach = found(disk.files(), path)?;
                Self::resume(disk, path, &content, reach)
            }
            (Err(error), Some(saved)) if error.kind() == io::ErrorKind::NotFound => {
                expect_none(disk.files(), path)?;
                Self::begin(disk, path, saved)
            }
            (Err(source), _) => Err(failed("read", path)(source)),
        }
    }

    /// Reads the log as a start would, without changing it. A coordinator may be appending to it, so the reach is read
    /// before the log, which only grows.
    pub fn look(disk: &D, path: &Path) -> Result<Option<Saved>, LogError> {
        let reach = found(disk.files(), path);
        match disk.files().read(path) {
            Ok(content) => Ok(Some(journal(path, &content, reach?)?.saved)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                expect_none(disk.files(), path)?;
                Ok(None)
            }
            Err(source) => Err(failed("read", path)(source)),
        }
    }

    /// Refuses to start if the log was lost.
    pub fn expect_none(disk: &D, path: &Path) -> Result<(), LogError> {
        expect_none(disk.files(), path)
    }

    fn begin(disk: D, path: &Path, saved: Saved) -> Result<Opened<D>, LogError> {
        let content = encoded(path, &saved.whole(), 0)?;
        let file = put_in_place(disk.files(), path, &content)?;
        let reached = Reached::beside(disk.files(), path, &saved)?;
        Ok(Opened {
            store: Self::at(disk, path, file, content.len(), reached),
            saved,
            torn_bytes: 0,
        })
    }

    fn resume(
        disk: D,
        path: &Path,
        content: &[u8],
        reach: Option<Reach>,
    ) -> Result<Opened<D>, LogError> {
        let journal = journal(path, content, reach)?;
        // A crash may have left an incomplete new file.
        remove_beside(disk.files(), path);
        let reached = Reached::beside(disk.files(), path, &journal.saved)?;
        let torn_bytes = content.len() - journal.whole_bytes;
        let file = cut(disk.files(), path, journal.whole_bytes, torn_bytes)?;
        Ok(Opened {
            store: Self::at(disk, path, file, journal.whole_bytes, reached),
            saved: journal.saved,
            torn_bytes: torn_bytes as u64,
        })
    }

    fn at(
        disk: D,
        path: &Path,
        file: LogFile<D>,
        end: usize,
        reached: Reached<LogFile<D>>,
    ) -> Self {
        let mut store = Self {
            disk,
            path: path.to_owned(),
            file,
            end: end as u64,
            reserve: DiskReserve::new(),
            reached,
            compaction: None,
            warning: None,
        };
        store.look_for_room();
        store
    }

    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    /// Checks the disk space. Returns whether there is none for new decisions.
    pub fn look_for_room(&mut self) -> bool {
        self.sync_reached();
        let (file, end) = (&mut self.file, self.end);
        match self.compaction {
            Some(_) => self.reserve.look_amid_compaction(file, end),
            None => {
                let free_bytes = || self.disk.files().free_bytes(&self.path);
                self.reserve.look(file, end, free_bytes);
            }
        }
        self.reserve.is_full()
    }

    /// Whether entries of the leader still fit.
    pub fn spares_some(&self) -> bool {
        self.reserve.spares_some(self.end)
    }

    /// Makes the batch durable. After [`LogError::NoRoom`] the log is unchanged.
    pub fn persist(&mut self, batch: &Batch) -> Result<(), LogError> {
        if batch.is_whole {
            let content = encoded(&self.path, batch, 0)?;
            self.compaction = None;
            let file = put_in_place(self.disk.files(), &self.path, &content)?;
            self.go_on_with(file, content.len());
        } else {
            self.append(batch)?;
        }
        self.note_votes(batch);
        Ok(())
    }

    fn append(&mut self, batch: &Batch) -> Result<(), LogError> {
        let content = encoded(&self.path, batch, self.end)?;
        if let Err(source) = self.file.write_all(&content) {
            return Err(self.give_up_append(source));
        }
        let synced = self.file.sync_data();
        synced.map_err(failed("write", &self.path))?;
        self.end += content.len() as u64;
        if let Some(underway) = &mut self.compaction {
            underway.tail.push(batch.clone());
        }
        Ok(())
    }

    /// Removes the part of the append that a full disk took.
    fn give_up_append(&mut self, source: io::Error) -> LogError {
        if is_lack(&source) && self.cut_off_part().is_ok() {
            let path = self.path.clone();
            return LogError::NoRoom { path, source };
        }
        failed("write", &self.path)(source)
    }

    /// Cuts off the part, and the preallocated space behind it.
    fn cut_off_part(&mut self) -> io::Result<()> {
        self.reserve.forget();
        self.file.truncate(self.end)?;
        self.file.sync_data()
    }

    /// Starts a file with this content, which is everything that counts.
    pub fn start_compaction(&mut self, whole: Batch) -> Result<(), LogError> {
        let begun = self.disk.compact(&self.path, whole);
        self.compaction = Some(Underway {
            compaction: begun.map_err(failed("compact", &self.path))?,
            tail: Vec::new(),
        });
        Ok(())
    }

    /// Replaces the log once the new file is written. Returns whether it did now.
    pub fn poll_compaction(&mut self) -> Result<bool, LogError> {
        let underway = self.compaction.take_if(|it| it.compaction.is_written());
        let Some(Underway { compaction, tail }) = underway else {
            return Ok(false);
        };
        let Written { mut file, length } = compaction.finish()?;
        let tail = encoded_tail(&self.path, &tail, length)?;
        let appended = file.write_all(&tail).and_then(|()| file.sync_data());
        appended
            .inspect_err(|_| remove_beside(self.disk.files(), &self.path))
            .map_err(replace_error(&self.path))?;
        take_place(self.disk.files(), &self.path).map_err(failed("replace", &self.path))?;
        self.go_on_with(file, length + tail.len());
        Ok(true)
    }

    fn go_on_with(&mut self, file: LogFile<D>, length: usize) {
        self.file = file;
        self.end = length as u64;
        self.reserve.forget();
        self.look_for_room();
    }

    fn note_votes(&mut self, batch: &Batch) {
        for record in &batch.records {
            if let Record::Vote(vote) = record {
                self.note(vote.term, 0);
            }
        }
    }

    /// Records that the log must hold this entry. Called before any peer gets the entry.
    pub fn acknowledge(&mut self, index: u64) {
        self.note(0, index);
    }

    fn note(&mut self, term: u64, index: u64) {
        let noted = self.reached.note(term, index);
        self.warn_of(noted);
    }

    /// To be called regularly, so that the reach becomes durable without a further entry.
    pub fn sync_reached(&mut self) {
        let synced = self.reached.sync();
        self.warn_of(synced);
    }

    /// Keeps the error as a warning; the log itself is intact.
    fn warn_of(&mut self, outcome: Result<(), LogError>) {
        if let Err(error) = outcome {
            self.warning = Some(error);
        }
    }

    /// Why the reach may be outdated. The last reason, once.
    pub fn take_warning(&mut self) -> Option<LogError> {
        self.warning.take()
    }

    /// The file that is appended to. Tests of broken disks replace it.
    pub fn file_mut(&mut self) -> &mut LogFile<D> {
        &mut self.file
    }
}

/// Executes a [`Compaction`]: writes everything to a durable file beside the log.
pub fn write_compacted<F: FileSystem>(
    files: &F,
    log: &Path,
    whole: &Batch,
) -> Result<Written<F::File>, LogError> {
    let content = encoded(log, whole, 0)?;
    let written = write_beside(files, log, &content).map_err(replace_error(log));
    Ok(Written {
        file: written?,
        length: content.len(),
    })
}

/// Removes the compacted file beside this log.
pub fn discard_compacted<F: FileSystem>(files: &F, log: &Path) {
    remove_beside(files, log);
}

fn journal(path: &Path, content: &[u8], reach: Option<Reach>) -> Result<Journal, LogError> {
    let journal = Journal::read(content).map_err(|source| {
        let path = path.to_owned();
        match source {
            JournalError::OtherVersion { .. } | JournalError::Foreign { .. } => {
                LogError::OfAnotherVersion { path, source }
            }
            _ => LogError::Unbelievable { path, source },
        }
    })?;
    expect_all(reach, path, &journal.saved)?;
    Ok(journal)
}

/// The bytes for a file that ends at `end`.
fn encoded(path: &Path, batch: &Batch, end: u64) -> Result<Vec<u8>, LogError> {
    batch.encode(end).map_err(|source| LogError::Unwritable {
        path: path.to_owned(),
        source,
    })
}

/// The bytes for a file of this length.
fn encoded_tail(path: &Path, tail: &[Batch], length: usize) -> Result<Vec<u8>, LogError> {
    let mut content = Vec::new();
    for batch in tail {
        let end = (length + content.len()) as u64;
        content.extend(encoded(path, batch, end)?);
    }
    Ok(content)
}

fn put_in_place<F: FileSystem>(
    files: &F,
    path: &Path,
    content: &[u8],
) -> Result<F::File, LogError> {
    let made = write_beside(files, path, content).map_err(replace_error(path))?;
    take_place(files, path).map_err(failed("replace", path))?;
    Ok(made)
}

/// Cuts off what was never made durable.
fn cut<F: FileSystem>(
    files: &F,
    path: &Path,
    whole_bytes: usize,
    torn_bytes: usize,
) -> Result<F::File, LogError> {
    let cut = || -> io::Result<F::File> {
        let mut file = files.open(path)?;
        if torn_bytes > 0 {
            file.truncate(whole_bytes as u64)?;
            file.sync_all()?;
        }
        Ok(file)
    };
    cut().map_err(failed("cut", path))
}
