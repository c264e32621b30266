//! Where the answers of a shard go: a folder, or an object store.

use std::path::{Path, PathBuf};

use object_store::local::LocalFileSystem;
use object_store::path::Path as Place;
use object_store::{ObjectStore, ObjectStoreExt};
use thiserror::Error;
use tokio::runtime::Builder;

#[derive(Debug, Error)]
pub(crate) enum StoreError {
    #[error("cannot make the folder {}", folder.display())]
    Folder {
        folder: PathBuf,
        source: std::io::Error,
    },
    #[error(
        "{url} is no place that is known here: give a folder, or s3://bucket/prefix to a program \
         that was built with the feature s3"
    )]
    Unknown { url: String },
    #[error("cannot start the event loop")]
    Start(#[source] std::io::Error),
    #[error("cannot reach {url}")]
    Reach {
        url: String,
        source: object_store::Error,
    },
    #[error("cannot write {file} to {url}")]
    Write {
        url: String,
        file: String,
        source: object_store::Error,
    },
}

/// Writes a file whole or not at all, and says where it is.
pub(super) fn write(to: &str, file: &str, content: String) -> Result<String, StoreError> {
    let (store, prefix) = open(to)?;
    let place: Place = prefix.parts().chain(Place::from(file).parts()).collect();
    let runtime = Builder::new_current_thread().enable_all().build();
    let written = runtime
        .map_err(StoreError::Start)?
        .block_on(store.put(&place, content.into_bytes().into()));
    written.map_err(|source| StoreError::Write {
        url: to.to_owned(),
        file: file.to_owned(),
        source,
    })?;
    Ok(format!("{}/{file}", to.trim_end_matches('/')))
}

fn open(to: &str) -> Result<(Box<dyn ObjectStore>, Place), StoreError> {
    match to.split_once("://") {
        None => folder(Path::new(to)),
        Some(("file", path)) => folder(Path::new(path)),
        Some(_) => remote(to),
    }
}

fn folder(folder: &Path) -> Result<(Box<dyn ObjectStore>, Place), StoreError> {
    let failed = |source| StoreError::Folder {
        folder: folder.to_owned(),
        source,
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let store = LocalFileSystem::new_with_prefix(folder);
    let store = store.map_err(|source| StoreError::Reach {
        url: folder.display().to_string(),
        source,
    })?;
    Ok((Box::new(store), Place::default()))
}

/// Keys, endpoint and region come from the environment, as AWS tools read them.
#[cfg(feature = "s3")]
fn remote(to: &str) -> Result<(Box<dyn ObjectStore>, Place), StoreError> {
    // Another part of the process may have chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let unknown = || StoreError::Unknown { url: to.to_owned() };
    let rest = to.strip_prefix("s3://").ok_or_else(unknown)?;
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let builder = object_store::aws::AmazonS3Builder::from_env().with_bucket_name(bucket);
    let store = builder.build().map_err(|source| StoreError::Reach {
        url: to.to_owned(),
        source,
    })?;
    Ok((Box::new(store), Place::from(prefix)))
}

#[cfg(not(feature = "s3"))]
fn remote(to: &str) -> Result<(Box<dyn ObjectStore>, Place), StoreError> {
    Err(StoreError::Unknown { url: to.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_made_and_a_file_replaced_as_a_whole() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("deep/er").display().to_string();
        for content in ["first", "second"] {
            let written = write(&folder, "shard-0-of-1.jsonl", content.to_owned()).unwrap();
            assert_eq!(std::fs::read_to_string(written).unwrap(), content);
        }
    }

    #[test]
    fn a_place_that_nobody_knows_is_refused() {
        let error = write("gopher://hole", "shard-0-of-1.jsonl", String::new()).unwrap_err();
        assert!(
            error.to_string().starts_with("gopher://hole is no place"),
            "{error}"
        );
    }
}
