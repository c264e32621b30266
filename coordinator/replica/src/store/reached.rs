//! How far the log had come, in a small file beside it. Without it, a lost log looks like one that never existed, and
//! a log without its end like one that a crash truncated.
//!
//! It is written in place after the log is durable, so any part that reaches the disk is true. It is synced with each
//! new term, and otherwise by [`Store::sync_reached`](super::Store::sync_reached). After a power loss it may lag, and
//! is never ahead.

use std::io;
use std::path::{Path, PathBuf};

use reweave_files::{FileHandle, FileSystem, replace};

use super::error::{LogError, failed};
use crate::journal::Saved;

/// What other members know about this log, which must contain it from then on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reach {
    /// The term of the latest vote.
    term: u64,
    /// The last applied entry. Later ones may still be replaced by a leader.
    index: u64,
}

impl Reach {
    /// The reach that the log proves itself.
    fn agreed(saved: &Saved) -> Self {
        Self {
            term: saved.vote.term,
            index: saved.vote.commit.min(saved.last()),
        }
    }

    /// Whether this log contains all of it.
    fn is_in(self, saved: &Saved) -> bool {
        saved.vote.term.max(saved.snapshot.term) >= self.term && saved.last() >= self.index
    }

    /// Written twice, so that damage is detected; always of one length.
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
pub(super) struct Reached<F> {
    path: PathBuf,
    file: F,
    reach: Reach,
    is_synced: bool,
    /// The last sync failed: the system may have dropped earlier writes.
    may_be_lost: bool,
}

impl<F: FileHandle> Reached<F> {
    /// Opens the file beside the log at this path, or creates it.
    pub(super) fn beside(
        files: &impl FileSystem<File = F>,
        log: &Path,
        saved: &Saved,
    ) -> Result<Self, LogError> {
        let path = name(log);
        let keep = "keep how far the log had come in";
        let found = found(files, log)?;
        let reach = found.unwrap_or_else(|| Reach::agreed(saved));
        if found.is_none() {
            let replaced = replace(files, &path, reach.in_words().as_bytes());
            replaced.map_err(failed(keep, &path))?;
        }
        let file = files.open(&path).map_err(failed(keep, &path))?;
        Ok(Self {
            path,
            file,
            reach,
            is_synced: true,
            may_be_lost: false,
        })
    }

    /// Records a greater reach. If the write fails, the previous one stays, which is still true.
    pub(super) fn note(&mut self, term: u64, index: u64) -> Result<(), LogError> {
        let reach = Reach {
            term: self.reach.term.max(term),
            index: self.reach.index.max(index),
        };
        if reach == self.reach {
            return Ok(());
        }
        let is_new_term = reach.term > self.reach.term;
        (self.reach, self.is_synced) = (reach, false);
        let written = self.file.overwrite(reach.in_words().as_bytes());
        if is_new_term {
            self.sync()?;
        }
        written.map_err(failed("write", &self.path))
    }

    /// A failed sync is repeated the next time.
    pub(super) fn sync(&mut self) -> Result<(), LogError> {
        if self.is_synced {
            return Ok(());
        }
        let synced = self.write_lost().and_then(|()| self.file.sync_data());
        self.is_synced = synced.is_ok();
        self.may_be_lost = synced.is_err();
        synced.map_err(failed("write", &self.path))
    }

    fn write_lost(&mut self) -> io::Result<()> {
        if self.may_be_lost {
            self.file.overwrite(self.reach.in_words().as_bytes())
        } else {
            Ok(())
        }
    }
}

fn name(log: &Path) -> PathBuf {
    log.with_file_name("reached")
}

pub(super) fn found(files: &impl FileSystem, log: &Path) -> Result<Option<Reach>, LogError> {
    let path = name(log);
    match files.read(&path) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            let reach = Reach::read(&text);
            reach.map(Some).ok_or(LogError::Unclear { path })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(failed("read", &path)(source)),
    }
}

/// Refuses to start if the log was lost.
pub(super) fn expect_none(files: &impl FileSystem, log: &Path) -> Result<(), LogError> {
    match found(files, log)? {
        None => Ok(()),
        Some(_) => Err(LogError::Gone {
            path: log.to_owned(),
            reached: name(log),
        }),
    }
}

/// Refuses to start with a log that had come further.
pub(super) fn expect_all(found: Option<Reach>, log: &Path, saved: &Saved) -> Result<(), LogError> {
    match found {
        Some(reach) if !reach.is_in(saved) => Err(LogError::CutBack {
            path: log.to_owned(),
            last: saved.last(),
            index: reach.index,
            reached: name(log),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use reweave_sim_disk::{LossyFile, LossyFiles};

    use super::*;

    const REACHED_NAME: &str = "reached";

    fn reached_on(disk: &LossyFiles) -> Reached<LossyFile> {
        let path = PathBuf::from(REACHED_NAME);
        Reached {
            file: disk.create(&path).unwrap(),
            path,
            reach: Reach { term: 1, index: 1 },
            is_synced: true,
            may_be_lost: false,
        }
    }

    /// After a loss of power.
    fn kept(disk: &LossyFiles) -> Option<Reach> {
        let synced = disk.synced(Path::new(REACHED_NAME)).unwrap();
        Reach::read(&String::from_utf8_lossy(&synced))
    }

    #[test]
    fn new_term_is_synced_at_once() {
        let disk = LossyFiles::exact();
        let mut reached = reached_on(&disk);
        reached.note(2, 5).unwrap();
        let elected = Some(Reach { term: 2, index: 5 });
        assert_eq!(kept(&disk), elected);
        reached.note(2, 6).unwrap();
        assert_eq!(kept(&disk), elected, "an entry waits for the next sync");
        reached.sync().unwrap();
        assert_eq!(kept(&disk), Some(Reach { term: 2, index: 6 }));
    }

    /// A sync that fails drops what was not synced.
    #[test]
    fn failed_sync_is_tried_again() {
        let disk = LossyFiles::exact();
        let mut reached = reached_on(&disk);
        disk.fail_syncs(true);
        assert!(reached.note(2, 5).is_err());
        assert!(reached.sync().is_err());
        disk.fail_syncs(false);
        reached.sync().unwrap();
        assert_eq!(kept(&disk), Some(Reach { term: 2, index: 5 }));
    }
}
