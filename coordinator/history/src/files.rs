//! Any files, in a folder or an object store: what the history lies on, for others to use.

use crate::shelf::{Shelf, ShelfError};
use crate::url;

/// A folder, or a part of an object store.
pub struct Files(Box<dyn Shelf>);

impl Files {
    /// `url` names a folder, which is made where it is missing, or an object store.
    pub fn open(url: &str) -> Result<Self, ShelfError> {
        url::open(url).map(Self)
    }

    /// The same, and nothing is made.
    pub fn open_to_read(url: &str) -> Result<Self, ShelfError> {
        url::open_to_read(url).map(Self)
    }

    /// Whole or not at all, and in place of what was there.
    pub fn put(&self, name: &str, content: Vec<u8>) -> Result<(), ShelfError> {
        self.0.put(name, content.into())
    }

    /// Nothing where there is no such file.
    pub fn get(&self, name: &str) -> Result<Option<Vec<u8>>, ShelfError> {
        Ok(self.0.get(name)?.map(Vec::from))
    }

    /// All there are, also in folders below.
    pub fn names(&self) -> Result<Vec<String>, ShelfError> {
        let listed = self.0.list(None)?;
        Ok(listed.into_iter().map(|file| file.name).collect())
    }
}
