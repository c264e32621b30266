//! Why a log cannot be opened or written.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::journal::JournalError;

#[derive(Debug, Error)]
pub enum LogError {
    #[error("cannot {what} {}", path.display())]
    File {
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error(
        "{} is corrupt. A single coordinator needs this file from a backup; a member of a cluster \
         starts with an empty folder after `reweave cluster member replace NAME`",
        path.display()
    )]
    Unbelievable { path: PathBuf, source: JournalError },
    #[error(
        "{} is gone, and {} shows that this folder was in use. Restore the log; to start without \
         its decisions, move both files away, and for a member of a cluster also run `reweave cluster \
         member replace NAME`", path.display(), reached.display()
    )]
    Gone { path: PathBuf, reached: PathBuf },
    #[error(
        "{} ends with entry {last}, and {} shows that entry {index} was there, or a later vote: its end is \
         lost. A coordinator that leads alone needs the whole file back, or goes on without what is lost \
         once {} is removed; a member of a cluster starts with an empty folder after `reweave cluster \
         member replace NAME`", path.display(), reached.display(), reached.display()
    )]
    CutBack {
        path: PathBuf,
        last: u64,
        index: u64,
        reached: PathBuf,
    },
    #[error(
        "{} is damaged: it records how far the log next to it had come. Remove it if that log is \
         intact", path.display()
    )]
    Unclear { path: PathBuf },
    #[error(
        "{} was written by another version of this program: start that version. If none ever ran \
         on this folder, the file is damaged", path.display()
    )]
    OfAnotherVersion { path: PathBuf, source: JournalError },
    /// The log itself is unchanged.
    #[error("no free space to write {}", path.display())]
    NoRoom { path: PathBuf, source: io::Error },
    #[error("an entry for {} cannot be written", path.display())]
    Unwritable { path: PathBuf, source: JournalError },
}

impl LogError {
    /// Whether the file is at fault, and not the disk.
    pub fn is_bad_input(&self) -> bool {
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

pub(super) fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LogError {
    let path = path.to_owned();
    move |source| LogError::File { what, path, source }
}

/// An error while the new file is written.
pub(super) fn replace_error(path: &Path) -> impl FnOnce(io::Error) -> LogError {
    let path = path.to_owned();
    move |source| {
        if is_lack(&source) {
            LogError::NoRoom { path, source }
        } else {
            failed("replace", &path)(source)
        }
    }
}

/// Whether the disk is full: `ENOSPC` or `EDQUOT`.
pub(super) fn is_lack(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}
