//! Files of durable state: one pair of traits, their implementation on this machine, and the atomic replacement of a file.
//!
//! Code that keeps state reaches its files by [`FileSystem`] alone. So the same code runs on the disk of a machine and on a
//! simulated one that loses power, flips bits or is full.
//!
//! Async and formats are deliberately absent. So are object stores: they take a whole file in one request, and there is nothing
//! to sync.

mod local;
mod replace;

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};

pub use local::LocalFiles;
pub use replace::{
    DraftFile, remove_beside, rename_durable, replace, replace_through, replace_with_mode,
    take_place, write_beside,
};

/// Files by their paths. A write may be lost until its file is synced. A name may be lost until its folder is synced.
pub trait FileSystem: Debug {
    type File: FileHandle;

    /// Reads the whole content of a file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Opens a file that exists, for writing behind its end and in place.
    fn open(&self, path: &Path) -> io::Result<Self::File>;

    /// Creates an empty file. A file that had this path loses its content.
    fn create(&self, path: &Path) -> io::Result<Self::File>;

    /// Creates an empty file, or fails with [`io::ErrorKind::AlreadyExists`] if the path is taken.
    fn create_new(&self, path: &Path) -> io::Result<Self::File>;

    /// Creates a file as [`FileSystem::create_new`] does, with exactly this mode. A file that root creates in the folder of a
    /// user belongs to that user. Simulated disks have neither modes nor users.
    fn create_with_mode(&self, path: &Path, _mode: u32) -> io::Result<Self::File> {
        self.create_new(path)
    }

    /// Opens a file for writing behind its end. A missing file is created, and only its owner can read it.
    fn append(&self, path: &Path) -> io::Result<Self::File>;

    /// Renames a file. It replaces the file that had the second path.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Lists the paths of all entries of a folder, in no order.
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>>;

    fn entry(&self, path: &Path) -> io::Result<Entry>;

    /// Creates a folder, with the missing folders above it.
    fn make_folder(&self, folder: &Path) -> io::Result<()>;

    /// When this returns, the names in the folder survive a loss of power.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// The free space on the file system of this path, for users other than root. None if the file system does not report it.
    fn free_bytes(&self, path: &Path) -> Option<u64>;
}

/// The kind of a directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    Folder,
    File { bytes: u64 },
}

/// A file that is open for writing. [`io::Write`] writes behind its end.
pub trait FileHandle: Debug + io::Write {
    /// The length in bytes.
    fn length(&self) -> io::Result<u64>;

    /// Writes in place, from the first byte on. Not for a file that was opened by [`FileSystem::append`].
    fn overwrite(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Cuts the file to this length. The next write begins there.
    fn truncate(&mut self, length: u64) -> io::Result<()>;

    /// When this returns, content and length survive a loss of power.
    fn sync_data(&mut self) -> io::Result<()>;

    /// When this returns, content, length and all metadata survive a loss of power.
    fn sync_all(&mut self) -> io::Result<()>;

    /// Reserves space for these bytes. The length of the file does not change.
    fn reserve(&mut self, from: u64, length: u64) -> io::Result<()>;
}
