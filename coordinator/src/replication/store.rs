//! The log on disk: one file, appended to, or replaced as a whole.
//!
//! What a crash cut short at its end was never acknowledged to anybody and is cut off; anything else
//! that is not as it was written, or less than was acknowledged, means that the file cannot be believed,
//! and nothing is started on it. After the first error nothing more is written: whoever does not know what reached the disk
//! must not go on.
//!
//! A compacted file is written beside by a thread of its own: it may take a second, and heartbeats go on meanwhile. What
//! is appended until then goes to the old file, and to the end of the new one before that takes its place.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use reweave_link::keep::{remove_beside, take_place, write_beside};
use reweave_replica::{Batch, Journal, JournalError, Record, Saved};
use thiserror::Error;

use super::reached::{Reached, expect_all, expect_none};
use super::room::{Room, is_lack};

#[derive(Debug, Error)]
pub(crate) enum LogError {
    #[error("cannot {what} {}", path.display())]
    File {
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error(
        "{} cannot be believed. A coordinator that leads alone needs this file from a copy; a \
         member of a cluster is taken out and added again, with a new number and an empty folder",
        path.display()
    )]
    Unbelievable { path: PathBuf, source: JournalError },
    #[error(
        "{} is gone, and {} shows that this folder was in use. Bring the log back from where it went; \
         to begin anew without what was decided, move both away, and a member of a cluster is taken \
         out and added again", path.display(), reached.display()
    )]
    Gone { path: PathBuf, reached: PathBuf },
    #[error(
        "{} ends with entry {last}, and {} shows that entry {index} was there, or a later vote: its end is \
         lost. A coordinator that leads alone needs the whole file back, or goes on without what is lost \
         once {} is removed; a member of a cluster is taken out and added again, with a new number and \
         an empty folder", path.display(), reached.display(), reached.display()
    )]
    CutBack {
        path: PathBuf,
        last: u64,
        index: u64,
        reached: PathBuf,
    },
    #[error(
        "{} is damaged: it tells how far the log beside it had come. Remove it, if that log is known to \
         be whole", path.display()
    )]
    Unclear { path: PathBuf },
    #[error(
        "{} says that another version of this program wrote it: start that one. If none ever ran on \
         this folder, the file is damaged", path.display()
    )]
    OfAnotherVersion { path: PathBuf, source: JournalError },
    /// The log itself is as it was.
    #[error("there is no room for a new {}", path.display())]
    NoRoom { path: PathBuf, source: io::Error },
    #[error("an entry for {} cannot be written", path.display())]
    Unwritable { path: PathBuf, source: JournalError },
}

impl LogError {
    /// Whether the file is at fault, and no disk.
    pub(crate) fn is_bad_input(&self) -> bool {
        matches!(
            self,
            Self::Unbelievable { .. }
                | Self::OfAnotherVersion { .. }
                | Self::Gone { .. }
                | Self::CutBack { .. }
                | Self::Unclear { .. }
        )
    }
}

#[derive(Debug)]
pub(crate) struct Store {
    path: PathBuf,
    file: File,
    /// Of the file.
    end: u64,
    room: Room,
    reached: Reached,
    compaction: Option<Compaction>,
}

/// A compacted file on its way.
#[derive(Debug)]
struct Compaction {
    path: PathBuf,
    /// The file and its length; gone once it was waited for.
    written: Option<JoinHandle<Result<(File, usize), LogError>>>,
    /// What was appended to the old file since.
    tail: Vec<u8>,
}

impl Compaction {
    fn begin(path: &Path, batch: Batch) -> Result<Self, LogError> {
        let at = path.to_owned();
        let write = move || {
            let content = encoded(&at, &batch)?;
            Ok((written_beside(&at, &content)?, content.len()))
        };
        let thread = thread::Builder::new().name("log-compact".to_owned());
        Ok(Self {
            written: Some(thread.spawn(write).map_err(failed("compact", path))?),
            path: path.to_owned(),
            tail: Vec::new(),
        })
    }

    fn is_written(&self) -> bool {
        self.written.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// The new file with all that came since, whole on disk, and its length.
    fn finish(mut self) -> Result<(File, usize), LogError> {
        let path = &self.path;
        let died = || failed("compact", path)(io::Error::other("the thread died"));
        let written = self.written.take().and_then(|thread| thread.join().ok());
        let (mut file, length) = written.ok_or_else(died)??;
        let appended = file.write_all(&self.tail).and_then(|()| file.sync_data());
        appended
            .inspect_err(|_| remove_beside(path))
            .map_err(replace_error(path))?;
        Ok((file, length + self.tail.len()))
    }
}

impl Drop for Compaction {
    /// Nothing is written in the folder once it is let go, and nothing is left there.
    fn drop(&mut self) {
        if let Some(thread) = self.written.take() {
            let _ = thread.join();
            remove_beside(&self.path);
        }
    }
}

/// A log and all that was in it.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) store: Store,
    pub(crate) saved: Saved,
    /// Bytes of a write that was never completed, and are gone now.
    pub(crate) torn_bytes: u64,
}

impl Store {
    /// Opens the log; without one, begins one with this.
    pub(crate) fn open(path: &Path, beginning: Option<Saved>) -> Result<Opened, LogError> {
        match (File::open(path), beginning) {
            (Ok(mut file), _) => Self::resume(path, &mut file),
            (Err(error), Some(saved)) if error.kind() == io::ErrorKind::NotFound => {
                expect_none(path)?;
                Self::begin(path, saved)
            }
            (Err(source), _) => Err(failed("open", path)(source)),
        }
    }

    fn begin(path: &Path, saved: Saved) -> Result<Opened, LogError> {
        let content = encoded(path, &saved.whole())?;
        let file = put_in_place(path, &content)?;
        let reached = Reached::beside(path, &saved)?;
        Ok(Opened {
            store: Self::at(path, file, content.len(), reached),
            saved,
            torn_bytes: 0,
        })
    }

    fn resume(path: &Path, file: &mut File) -> Result<Opened, LogError> {
        let mut content = Vec::new();
        let read = file.read_to_end(&mut content);
        read.map_err(failed("read", path))?;
        let journal = journal(path, &content)?;
        // A crash may have left half a file that was to take its place.
        remove_beside(path);
        let reached = Reached::beside(path, &journal.saved)?;
        let file = cut(path, journal.whole_bytes as u64)?;
        Ok(Opened {
            store: Self::at(path, file, journal.whole_bytes, reached),
            saved: journal.saved,
            torn_bytes: (content.len() - journal.whole_bytes) as u64,
        })
    }

    fn at(path: &Path, file: File, end: usize, reached: Reached) -> Self {
        let mut store = Self {
            path: path.to_owned(),
            file,
            end: end as u64,
            room: Room::new(),
            reached,
            compaction: None,
        };
        store.look_for_room();
        store
    }

    pub(crate) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    /// Whether there is none for more than what is under way.
    pub(crate) fn look_for_room(&mut self) -> bool {
        self.reached.sync();
        match self.compaction.is_some() {
            true => self.room.look_amid_compaction(&self.file, self.end),
            false => self.room.look(&self.path, &self.file, self.end),
        }
        self.room.is_full()
    }

    /// Whether a peer's entries may still be taken.
    pub(crate) fn spares_some(&self) -> bool {
        self.room.spares_some(self.end)
    }

    /// When this returns, the batch survives a loss of power.
    pub(crate) fn persist(&mut self, batch: &Batch) -> Result<(), LogError> {
        let content = encoded(&self.path, batch)?;
        if batch.is_whole {
            self.compaction = None;
            let file = put_in_place(&self.path, &content)?;
            self.go_on_with(file, content.len());
            self.note_votes(batch);
            return Ok(());
        }
        let mut write = || -> io::Result<()> {
            self.file.write_all(&content)?;
            self.file.sync_data()
        };
        write().map_err(failed("write", &self.path))?;
        self.end += content.len() as u64;
        if let Some(compaction) = &mut self.compaction {
            compaction.tail.extend_from_slice(&content);
        }
        self.note_votes(batch);
        Ok(())
    }

    /// Begins a file that holds no more than this, which is all there is; or not, where one is on its way already.
    pub(crate) fn start_compaction(&mut self, whole: Batch) -> Result<bool, LogError> {
        let is_free = self.compaction.is_none();
        if is_free {
            self.compaction = Some(Compaction::begin(&self.path, whole)?);
        }
        Ok(is_free)
    }

    /// The new file takes the place of the old one as soon as it is written; whether it did now.
    pub(crate) fn poll_compaction(&mut self) -> Result<bool, LogError> {
        let Some(compaction) = self.compaction.take_if(|it| it.is_written()) else {
            return Ok(false);
        };
        let (file, length) = compaction.finish()?;
        take_place(&self.path).map_err(failed("replace", &self.path))?;
        self.go_on_with(file, length);
        Ok(true)
    }

    fn go_on_with(&mut self, file: File, length: usize) {
        self.file = file;
        self.end = length as u64;
        self.room.forget();
        self.look_for_room();
    }

    fn note_votes(&mut self, batch: &Batch) {
        for record in &batch.records {
            if let Record::Vote(vote) = record {
                self.reached.note(vote.term, 0);
            }
        }
    }

    /// From now on a log without this entry is not believed. To be said before anybody hears of it.
    pub(crate) fn acknowledge(&mut self, index: u64) {
        self.reached.note(0, index);
    }

    /// From now on nothing can be written.
    #[cfg(test)]
    pub(crate) fn break_down(&mut self) {
        self.file = File::open(&self.path).unwrap();
    }
}

/// Whether a start would take what lies there, if anything does. Changes nothing.
pub(crate) fn look(path: &Path) -> Result<Option<Saved>, LogError> {
    match fs::read(path) {
        Ok(content) => Ok(Some(journal(path, &content)?.saved)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            expect_none(path)?;
            Ok(None)
        }
        Err(source) => Err(failed("read", path)(source)),
    }
}

fn journal(path: &Path, content: &[u8]) -> Result<Journal, LogError> {
    let journal = Journal::read(content).map_err(|source| {
        let path = path.to_owned();
        match source {
            JournalError::OtherVersion { .. } | JournalError::Foreign { .. } => {
                LogError::OfAnotherVersion { path, source }
            }
            _ => LogError::Unbelievable { path, source },
        }
    })?;
    expect_all(path, &journal.saved)?;
    Ok(journal)
}

fn encoded(path: &Path, batch: &Batch) -> Result<Vec<u8>, LogError> {
    batch.encode().map_err(|source| LogError::Unwritable {
        path: path.to_owned(),
        source,
    })
}

fn put_in_place(path: &Path, content: &[u8]) -> Result<File, LogError> {
    let made = written_beside(path, content)?;
    take_place(path).map_err(failed("replace", path))?;
    Ok(made)
}

fn written_beside(path: &Path, content: &[u8]) -> Result<File, LogError> {
    write_beside(path, content).map_err(replace_error(path))
}

/// Writing the file that is to take this one's place.
fn replace_error(path: &Path) -> impl FnOnce(io::Error) -> LogError {
    let path = path.to_owned();
    move |source| match is_lack(&source) {
        true => LogError::NoRoom { path, source },
        false => failed("replace", &path)(source),
    }
}

fn cut(path: &Path, length: u64) -> Result<File, LogError> {
    let cut = || -> io::Result<File> {
        let mut file = OpenOptions::new().write(true).open(path)?;
        if file.metadata()?.len() != length {
            file.set_len(length)?;
            file.sync_all()?;
        }
        file.seek(SeekFrom::Start(length))?;
        Ok(file)
    };
    cut().map_err(failed("cut", path))
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LogError {
    let path = path.to_owned();
    move |source| LogError::File { what, path, source }
}

#[cfg(test)]
mod tests;
