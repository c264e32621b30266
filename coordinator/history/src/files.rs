//! Arbitrary files in a folder or an object store, with the storage of the history.

use crate::shelf::{Shelf, ShelfError};
use crate::url;

/// A folder, or a part of an object store.
pub struct Files(Box<dyn Shelf>);

impl Files {
    /// Opens a location. `url` names a folder, which is created if it is missing, or an object store.
    pub fn open(url: &str) -> Result<Self, ShelfError> {
        url::open(url).map(Self)
    }

    /// Opens a location without creating anything.
    pub fn open_to_read(url: &str) -> Result<Self, ShelfError> {
        url::open_to_read(url).map(Self)
    }

    /// Writes a file as a whole. It replaces a file of the same name.
    pub fn put(&self, name: &str, content: Vec<u8>) -> Result<(), ShelfError> {
        self.0.put(name, content.into())
    }

    /// Returns the content, or None if there is no such file.
    pub fn get(&self, name: &str) -> Result<Option<Vec<u8>>, ShelfError> {
        Ok(self.0.get(name)?.map(Vec::from))
    }

    /// Returns the names of all files, also in folders below.
    pub fn names(&self) -> Result<Vec<String>, ShelfError> {
        let listed = self.0.list(None)?;
        Ok(listed.into_iter().map(|file| file.name).collect())
    }
}
