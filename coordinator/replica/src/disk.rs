//! The disk operations that the log needs.
//!
//! [`Store`](crate::Store) reaches its files by these traits alone. So the same code runs on the disk of a machine
//! and on a simulated one with faults.

use std::fmt::Debug;
use std::io;
use std::path::Path;

use crate::journal::Batch;
use crate::store::{LogError, Written};

/// Files by their names. A write may be lost until its file is synced; a name, until its folder is.
pub trait Disk: Debug {
    type File: DiskFile;
    type Compaction: Compaction<File = Self::File>;

    /// The whole content of a file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Opens a file that exists, for writing.
    fn open(&self, path: &Path) -> io::Result<Self::File>;

    /// An empty file, in place of the one that had this name.
    fn create(&self, path: &Path) -> io::Result<Self::File>;

    /// Takes the place of the file that had the second name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    fn remove(&self, path: &Path) -> io::Result<()>;

    /// When this returns, the names in the folder survive a loss of power.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// On the file system of this file, for those who are no administrators. None where the file system does not say.
    fn free_bytes(&self, path: &Path) -> Option<u64>;

    /// Starts [`write_compacted`](crate::write_compacted) beside everything else.
    fn compact(&self, path: &Path, whole: Batch) -> io::Result<Self::Compaction>;
}

/// A file that is open for writing.
pub trait DiskFile: Debug {
    /// Writes behind the end.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Writes in place, from the first byte on.
    fn overwrite(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Cuts the file to this length. The next append goes behind that.
    fn truncate(&mut self, length: u64) -> io::Result<()>;

    /// When this returns, content and length survive a loss of power.
    fn sync_data(&mut self) -> io::Result<()>;

    /// The same, with all else that the file system knows of the file.
    fn sync_all(&mut self) -> io::Result<()>;

    /// Keeps room for these bytes. The file gets no longer by it.
    fn reserve(&mut self, from: u64, length: u64) -> io::Result<()>;
}

/// A shorter log on its way. One that is dropped leaves nothing behind.
pub trait Compaction: Debug {
    type File;

    /// Whether [`finish`](Self::finish) has nothing to wait for.
    fn is_written(&self) -> bool;

    fn finish(self) -> Result<Written<Self::File>, LogError>;
}
