//! Where files lie: a local folder, or an object store.
//!
//! A file appears whole or not at all: locally it is written aside, brought to disk and renamed; an
//! object store takes it in one request.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::local::LocalFileSystem;
use object_store::path::Path as Place;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use thiserror::Error;
use tokio::runtime::Runtime;

/// A store that does not answer for this long is taken for gone.
const STORE_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Debug, Error)]
pub enum ShelfError {
    #[error("cannot make the folder {}", folder.display())]
    Folder {
        folder: PathBuf,
        source: std::io::Error,
    },
    #[error("cannot reach {url}: {}", innermost(problem))]
    Reach {
        url: String,
        problem: object_store::Error,
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
    /// Whether there can be no history at that place, even with every store reachable.
    pub fn is_bad_input(&self) -> bool {
        matches!(
            self,
            Self::Unknown { .. } | Self::NoFolder { .. } | Self::Unusable { .. }
        )
    }
}

/// What it came from, in one line: errors of object stores say all that led to them, and again in
/// each of those, with pages of XML between.
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
    /// Nothing where there is no such file.
    fn get(&self, name: &str) -> Result<Option<Bytes>, ShelfError>;
    /// All files in and below a folder, or all there are.
    fn list(&self, folder: Option<&str>) -> Result<Vec<Listed>, ShelfError>;
    /// Also when it is gone already.
    fn remove(&self, name: &str) -> Result<(), ShelfError>;
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

#[derive(Debug)]
pub(crate) struct Store {
    objects: Arc<dyn ObjectStore>,
    prefix: Place,
    runtime: Runtime,
}

impl Store {
    /// A folder, made where it is missing.
    pub(crate) fn make_folder(folder: &Path) -> Result<Self, ShelfError> {
        fs::create_dir_all(folder).map_err(|source| ShelfError::Folder {
            folder: folder.to_owned(),
            source,
        })?;
        Self::folder(folder)
    }

    pub(crate) fn folder(folder: &Path) -> Result<Self, ShelfError> {
        let objects = LocalFileSystem::new_with_prefix(folder);
        let objects = objects.map_err(|problem| ShelfError::Reach {
            url: folder.display().to_string(),
            problem,
        })?;
        Self::new(Arc::new(objects.with_fsync(true)), Place::default())
    }

    pub(crate) fn new(objects: Arc<dyn ObjectStore>, prefix: Place) -> Result<Self, ShelfError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(ShelfError::Start)?;
        Ok(Self {
            objects,
            prefix,
            runtime,
        })
    }

    fn place(&self, name: &str) -> Place {
        self.prefix
            .parts()
            .chain(Place::from(name).parts())
            .collect()
    }

    fn wait<T>(
        &self,
        what: &'static str,
        name: &str,
        work: impl Future<Output = object_store::Result<T>>,
    ) -> Result<T, ShelfError> {
        let file = || name.to_owned();
        let patient = async { tokio::time::timeout(STORE_TIMEOUT, work).await };
        match self.runtime.block_on(patient) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(problem)) => Err(ShelfError::Failed {
                what,
                file: file(),
                problem,
            }),
            Err(_) => Err(ShelfError::Silent { what, file: file() }),
        }
    }
}

impl Shelf for Store {
    fn put(&self, name: &str, content: Bytes) -> Result<(), ShelfError> {
        let place = self.place(name);
        let put = self.objects.put(&place, content.into());
        self.wait("write", name, put).map(drop)
    }

    fn get(&self, name: &str) -> Result<Option<Bytes>, ShelfError> {
        let place = self.place(name);
        let get = async { self.objects.get(&place).await?.bytes().await };
        if_there(self.wait("read", name, get).map(Some))
    }

    fn list(&self, folder: Option<&str>) -> Result<Vec<Listed>, ShelfError> {
        let place = self.place(folder.unwrap_or_default());
        let list = self.objects.list(Some(&place));
        let listed = list.try_filter_map(|object| async move { Ok(self.listed(&object)) });
        let name = folder.unwrap_or("the files");
        self.wait("list", name, listed.try_collect())
    }

    fn remove(&self, name: &str) -> Result<(), ShelfError> {
        let place = self.place(name);
        if_there(self.wait("remove", name, self.objects.delete(&place)))
    }
}

/// That something is not there is no failure.
fn if_there<T: Default>(outcome: Result<T, ShelfError>) -> Result<T, ShelfError> {
    match outcome {
        Err(ShelfError::Failed {
            problem: object_store::Error::NotFound { .. },
            ..
        }) => Ok(T::default()),
        other => other,
    }
}

impl Store {
    fn listed(&self, object: &ObjectMeta) -> Option<Listed> {
        let parts = object.location.prefix_match(&self.prefix)?;
        let parts: Vec<_> = parts.map(|part| part.as_ref().to_owned()).collect();
        Some(Listed {
            name: parts.join("/"),
            bytes: object.size,
        })
    }
}
