//! Storage locations from the URLs that users write.

use std::path::Path;

use reweave_files::LocalFiles;

use crate::folder_thread::FolderThread;
use crate::shelf::{Shelf, ShelfError};

/// Opens a folder, `file:///folder`, or with the feature `s3` also `s3://bucket/prefix`. Its credentials and endpoint
/// come from the environment variables of the AWS tools.
pub(crate) fn open(url: &str) -> Result<Box<dyn Shelf>, ShelfError> {
    match folder(url) {
        Some(folder) => Ok(Box::new(FolderThread::make(LocalFiles, folder)?)),
        None => elsewhere(url),
    }
}

/// Opens a location without creating anything.
pub(crate) fn open_to_read(url: &str) -> Result<Box<dyn Shelf>, ShelfError> {
    match folder(url) {
        Some(folder) => Ok(Box::new(FolderThread::open(LocalFiles, folder)?)),
        None => elsewhere(url),
    }
}

/// Checks that a history can be at this location. Whether it is reachable at present does not matter.
pub fn check(url: &str) -> Result<(), ShelfError> {
    let Some(folder) = folder(url) else {
        return elsewhere(url).map(drop);
    };
    match FolderThread::check(LocalFiles, folder) {
        // It may answer later.
        Err(ShelfError::Silent { .. }) => Ok(()),
        checked => checked,
    }
}

fn folder(url: &str) -> Option<&Path> {
    match url.split_once("://") {
        None => Some(Path::new(url)),
        Some(("file", folder)) => Some(Path::new(folder)),
        Some(_) => None,
    }
}

fn elsewhere(url: &str) -> Result<Box<dyn Shelf>, ShelfError> {
    match url.split_once("://") {
        Some(("s3", _)) => bucket(url),
        _ => unknown(url),
    }
}

fn unknown(url: &str) -> Result<Box<dyn Shelf>, ShelfError> {
    let url = url.to_owned();
    Err(ShelfError::Unknown { url })
}

#[cfg(not(feature = "s3"))]
fn bucket(url: &str) -> Result<Box<dyn Shelf>, ShelfError> {
    unknown(url)
}

#[cfg(feature = "s3")]
fn bucket(url: &str) -> Result<Box<dyn Shelf>, ShelfError> {
    use object_store::aws::AmazonS3Builder;
    use object_store::path::Path as Prefix;

    use crate::bucket::Bucket;

    let failed = |problem| ShelfError::Unusable {
        url: url.to_owned(),
        problem,
    };
    // If another provider was installed before, it stays.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let store = AmazonS3Builder::from_env().with_url(url).build();
    let rest = url.trim_start_matches("s3://");
    let (_, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let store = std::sync::Arc::new(store.map_err(failed)?);
    Ok(Box::new(Bucket::new(store, Prefix::from(prefix))?))
}
