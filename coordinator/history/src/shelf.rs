//! The storage of files: a local folder, or an object store.
//!
//! All other state of Reweave goes through a file system. An object store is not one: it takes a whole file in one
//! request, and has no open files, no sync and no folders. So this trait has what both can do. A
//! [`Folder`](crate::folder::Folder) implements it on a file system: it writes a draft, syncs it and renames it.
//! Operations of both have the timeout [`STORE_TIMEOUT`].

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use thiserror::Error;

/// A store that does not answer for this long counts as unreachable.
pub(crate) const STORE_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Debug, Error)]
pub enum ShelfError {
    #[error("cannot make the folder {}", folder.display())]
    Folder {
        folder: PathBuf,
        source: std::io::Error,
    },
    #[error("cannot reach {url}: {problem}")]
    Reach {
        url: String,
        problem: std::io::Error,
    },
    #[error(
        "{url} is not a supported location: give a folder, or s3://bucket/prefix if the program \
         was built with the feature s3"
    )]
    Unknown { url: String },
    #[error("{} is not a folder, which the history needs", path.display())]
    NoFolder { path: PathBuf },
    #[error("{url} cannot be used: {}", innermost(problem))]
    Unusable {
        url: String,
        problem: object_store::Error,
    },
    #[error("cannot start the event loop")]
    Start(#[source] std::io::Error),
    #[error("cannot start a thread for the files")]
    Thread(#[source] std::io::Error),
    #[error("cannot {what} {file}: {problem}")]
    Local {
        what: &'static str,
        file: String,
        problem: std::io::Error,
    },
    #[error("cannot {what} {file}: {}", innermost(problem))]
    Failed {
        what: &'static str,
        file: String,
        problem: object_store::Error,
    },
    #[error("cannot {what} {file}: the store does not answer")]
    Silent { what: &'static str, file: String },
}

impl ShelfError {
    /// Whether no history can be at that location, even if every store is reachable.
    pub fn is_bad_input(&self) -> bool {
        matches!(
            self,
            Self::Unknown { .. } | Self::NoFolder { .. } | Self::Unusable { .. }
        )
    }
}

/// Returns the innermost cause in one line. Errors of object stores repeat their causes at each level, with pages of
/// XML between.
fn innermost(problem: &object_store::Error) -> String {
    let problem: &dyn Error = problem;
    let chain = std::iter::successors(Some(problem), |&error| error.source());
    let text = chain.last().map(ToString::to_string).unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    let (plain, _) = line.split_once("<?xml").unwrap_or((line, ""));
    plain.trim_end_matches([':', ' ']).to_owned()
}

/// Files by name, each written once.
pub(crate) trait Shelf: Send {
    fn put(&self, name: &str, content: Bytes) -> Result<(), ShelfError>;
    /// Returns the content, or None if there is no such file.
    fn get(&self, name: &str) -> Result<Option<Bytes>, ShelfError>;
    /// Lists all files in and below a folder, or all files of the shelf.
    fn list(&self, folder: Option<&str>) -> Result<Vec<Listed>, ShelfError>;
    /// Removes a file. A file that is already gone is no error.
    fn remove(&self, name: &str) -> Result<(), ShelfError>;
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) bytes: u64,
}
