//! How far a log had come, in a small file beside it. Without that a log that is gone looks like one
//! that never was, and one without its end like one that a crash cut short.
//!
//! It is written in place once what it tells of is on disk, so whatever of it gets to the disk is true. It is synced with
//! each new term, and otherwise once a second while there is something to sync: after a loss of power it may say too
//! little by that much, never too much.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use reweave_link::keep::replace;
use reweave_replica::Saved;

use super::store::LogError;

/// To sync it with each entry would cost a second write to disk per decision.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// What was said to others, and must stand in the log from then on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reach {
    /// Of the latest vote.
    term: u64,
    /// Of the last entry that was carried out. Later ones may yet be replaced by a leader's.
    index: u64,
}

impl Reach {
    /// As far as the log tells itself.
    fn agreed(saved: &Saved) -> Self {
        Self {
            term: saved.vote.term,
            index: saved.vote.commit.min(saved.last()),
        }
    }

    /// Whether all of it stands in this log.
    fn is_in(self, saved: &Saved) -> bool {
        saved.vote.term.max(saved.snapshot.term) >= self.term && saved.last() >= self.index
    }

    /// Twice, so that what is damaged is not taken for another. Always of one length.
    fn in_words(self) -> String {
        let Self { term, index } = self;
        format!("{term:016x} {index:016x}\n{term:016x} {index:016x}\n")
    }

    fn read(text: &str) -> Option<Self> {
        let number = |at| u64::from_str_radix(text.get(at..at + 16)?, 16).ok();
        let (term, index) = (number(0)?, number(17)?);
        let reach = Self { term, index };
        (reach.in_words() == text).then_some(reach)
    }
}

#[derive(Debug)]
pub(super) struct Reached {
    path: PathBuf,
    file: File,
    reach: Reach,
    synced: Instant,
    is_synced: bool,
}

impl Reached {
    /// Of the log at this path, and begun where there is none.
    pub(super) fn beside(log: &Path, saved: &Saved) -> Result<Self, LogError> {
        let path = name(log);
        let failed = |source| LogError::File {
            what: "keep how far the log had come in",
            path: path.clone(),
            source,
        };
        let found = found(log)?;
        let reach = found.unwrap_or_else(|| Reach::agreed(saved));
        if found.is_none() {
            replace(&path, reach.in_words().as_bytes()).map_err(failed)?;
        }
        let file = OpenOptions::new().write(true).open(&path);
        let file = file.map_err(failed)?;
        Ok(Self {
            path,
            file,
            reach,
            synced: Instant::now(),
            is_synced: true,
        })
    }

    /// A smaller number says nothing new. What cannot be written leaves the one before, which stays true.
    pub(super) fn note(&mut self, term: u64, index: u64) {
        let reach = Reach {
            term: self.reach.term.max(term),
            index: self.reach.index.max(index),
        };
        if reach == self.reach {
            return;
        }
        let is_new_term = reach.term > self.reach.term;
        (self.reach, self.is_synced) = (reach, false);
        let written = self.file.write_all_at(reach.in_words().as_bytes(), 0);
        self.warn_of(written);
        if is_new_term || self.synced.elapsed() >= SYNC_INTERVAL {
            self.sync();
        }
    }

    /// To be called now and then, so that nothing waits for the next entry.
    pub(super) fn sync(&mut self) {
        if !self.is_synced {
            let synced = self.file.sync_data();
            (self.synced, self.is_synced) = (Instant::now(), true);
            self.warn_of(synced);
        }
    }

    fn warn_of(&self, outcome: io::Result<()>) {
        if let Err(error) = outcome {
            tracing::warn!("cannot write {}: {error}", self.path.display());
        }
    }
}

fn name(log: &Path) -> PathBuf {
    log.with_file_name("reached")
}

fn found(log: &Path) -> Result<Option<Reach>, LogError> {
    let path = name(log);
    match fs::read(&path) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            let reach = Reach::read(&text);
            reach.map(Some).ok_or(LogError::Unclear { path })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(LogError::File {
            what: "read",
            path,
            source,
        }),
    }
}

/// Refuses to go on where there is no log any more.
pub(crate) fn expect_none(log: &Path) -> Result<(), LogError> {
    match found(log)? {
        None => Ok(()),
        Some(_) => Err(LogError::Gone {
            path: log.to_owned(),
            reached: name(log),
        }),
    }
}

/// Refuses to go on with a log that had come further.
pub(super) fn expect_all(log: &Path, saved: &Saved) -> Result<(), LogError> {
    match found(log)? {
        Some(reach) if !reach.is_in(saved) => Err(LogError::CutBack {
            path: log.to_owned(),
            last: saved.last(),
            index: reach.index,
            reached: name(log),
        }),
        _ => Ok(()),
    }
}
