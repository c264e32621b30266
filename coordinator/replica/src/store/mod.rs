//! The log on disk: one file, appended to, or replaced as a whole.
//!
//! What a crash truncated at its end was never acknowledged, and is cut off. Any other difference from what was
//! written, or fewer records than were acknowledged, means a damaged file, and nothing is started on it. After the
//! first error nothing more is written, since it is unknown what reached the disk. One case is harmless: the part of
//! an append that a full disk took is cut off again.
//!
//! The [`LogDisk`] writes a compacted file beside the old one: that may take a second, and heartbeats go on meanwhile.
//! Appends until then go to the old file, and to the end of the new one before it replaces the old one.

mod error;
mod reached;
mod reserve;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use reweave_files::{FileHandle, FileSystem, remove_beside, take_place, write_beside};

use crate::journal::{Batch, Journal, JournalError, Record, Saved};
use crate::log_disk::{Compaction, LogDisk, LogFile};
pub use error::LogError;
use error::{failed, is_lack, replace_error};
use reached::{Reach, Reached, expect_all, expect_none, found};
use reserve::DiskReserve;

#[derive(Debug)]
pub struct Store<D: LogDisk> {
    disk: D,
    path: PathBuf,
    file: LogFile<D>,
    /// Of the file.
    end: u64,
    reserve: DiskReserve,
    reached: Reached<LogFile<D>>,
    compaction: Option<Underway<D::Compaction>>,
    warning: Option<LogError>,
}

/// A compacted file on its way.
#[derive(Debug)]
struct Underway<C> {
    compaction: C,
    /// What was appended to the old file since. In the new one it belongs to other places.
    tail: Vec<Batch>,
}

/// A compacted file, whole on disk beside the log.
#[derive(Debug)]
pub struct Written<F> {
    pub file: F,
    /// In bytes.
    pub length: usize,
}

/// A log and its content.
#[derive(Debug)]
pub struct Opened<D: LogDisk> {
    pub store: Store<D>,
    pub saved: Saved,
    /// Bytes of a write that was never completed, and are gone now.
    pub torn_bytes: u64,
}

impl<D: LogDisk> Store<D> {
    /// Opens the log; without one, begins one with this.
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

    /// Whether a start would take what lies there, if anything does. Changes nothing. A coordinator may be appending to
    /// it: how far it had come is read first, since the log only ever goes on from there.
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

    /// Refuses to go on where there is no log any longer.
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
        // A crash may have left half a file that was to take its place.
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

    /// Whether there is none for more than what is under way.
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

    /// Whether a peer's entries may still be taken.
    pub fn spares_some(&self) -> bool {
        self.reserve.spares_some(self.end)
    }

    /// When this returns, the batch survives a loss of power. After [`LogError::NoRoom`] the log is as it was.
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

    /// A full disk may have taken a part.
    fn give_up_append(&mut self, source: io::Error) -> LogError {
        if is_lack(&source) && self.cut_off_part().is_ok() {
            let path = self.path.clone();
            return LogError::NoRoom { path, source };
        }
        failed("write", &self.path)(source)
    }

    /// With all that was kept behind the end.
    fn cut_off_part(&mut self) -> io::Result<()> {
        self.reserve.forget();
        self.file.truncate(self.end)?;
        self.file.sync_data()
    }

    /// Begins a file that holds no more than this, which is all there is.
    pub fn start_compaction(&mut self, whole: Batch) -> Result<(), LogError> {
        let begun = self.disk.compact(&self.path, whole);
        self.compaction = Some(Underway {
            compaction: begun.map_err(failed("compact", &self.path))?,
            tail: Vec::new(),
        });
        Ok(())
    }

    /// The new file takes the place of the old one as soon as it is written; whether it did now.
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

    /// From now on a log without this entry is refused. To be called before any peer gets the entry.
    pub fn acknowledge(&mut self, index: u64) {
        self.note(0, index);
    }

    fn note(&mut self, term: u64, index: u64) {
        let noted = self.reached.note(term, index);
        self.warn_of(noted);
    }

    /// To be called now and then, so that nothing waits for the next entry.
    pub fn sync_reached(&mut self) {
        let synced = self.reached.sync();
        self.warn_of(synced);
    }

    /// The log itself is none the worse for it.
    fn warn_of(&mut self, outcome: Result<(), LogError>) {
        if let Err(error) = outcome {
            self.warning = Some(error);
        }
    }

    /// Why less is known of how far the log had come than could be. The last reason, once.
    pub fn take_warning(&mut self) -> Option<LogError> {
        self.warning.take()
    }

    /// What is appended to. Tests of what follows from a broken disk put another one there.
    pub fn file_mut(&mut self) -> &mut LogFile<D> {
        &mut self.file
    }
}

/// What a [`Compaction`] does: all there is, whole on disk, beside the log whose place it is to take.
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

/// The compacted file beside this log is not wanted any longer.
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

/// For a file that ends here.
fn encoded(path: &Path, batch: &Batch, end: u64) -> Result<Vec<u8>, LogError> {
    batch.encode(end).map_err(|source| LogError::Unwritable {
        path: path.to_owned(),
        source,
    })
}

/// For a file of this length.
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

/// The log without what lies behind all that counts.
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
