//! The files that durable state rests on: one pair of traits, the files of this machine, and how one file takes the place of
//! another.
//!
//! Code that keeps state reaches its files by [`FileSystem`] alone. So the same code runs on the disk of a machine and on a
//! simulated one that loses power, flips bits or is full.
//!
//! Deliberately absent: async, formats, and object stores, which take a file whole in one request and have nothing to sync.

mod local;
mod replace;

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};

pub use local::LocalFiles;
pub use replace::{remove_beside, replace, replace_through, take_place, write_beside};

/// Files by their paths. A write may be lost until its file is synced; a name, until its folder is.
pub trait FileSystem: Debug {
    type File: FileHandle;

    /// The whole content of a file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Opens a file that exists, for writing behind its end and in place.
    fn open(&self, path: &Path) -> io::Result<Self::File>;

    /// An empty file, in place of the one that had this path.
    fn create(&self, path: &Path) -> io::Result<Self::File>;

    /// An empty file. [`io::ErrorKind::AlreadyExists`] where the path is taken.
    fn create_new(&self, path: &Path) -> io::Result<Self::File>;

    /// As [`FileSystem::create_new`], with exactly this mode. What root creates in the folder of a user belongs to that
    /// user. Simulated disks have neither modes nor users.
    fn create_with_mode(&self, path: &Path, _mode: u32) -> io::Result<Self::File> {
        self.create_new(path)
    }

    /// For writing behind the end. Made where it is not there, and then only its owner can read it.
    fn append(&self, path: &Path) -> io::Result<Self::File>;

    /// Takes the place of the file that had the second path.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    fn remove(&self, path: &Path) -> io::Result<()>;

    /// The paths of all that lies in a folder, in no order.
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>>;

    fn entry(&self, path: &Path) -> io::Result<Entry>;

    /// With those above it that are not there.
    fn make_folder(&self, folder: &Path) -> io::Result<()>;

    /// When this returns, the names in the folder survive a loss of power.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;

    /// On the file system of this file, for those who are no administrators. None where the file system does not say.
    fn free_bytes(&self, path: &Path) -> Option<u64>;
}

/// What lies at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    Folder,
    File { bytes: u64 },
}

/// A file that is open for writing: [`io::Write`] writes behind its end.
pub trait FileHandle: Debug + io::Write {
    /// In bytes.
    fn length(&self) -> io::Result<u64>;

    /// Writes in place, from the first byte on. Not for a file that was opened by [`FileSystem::append`].
    fn overwrite(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Cuts the file to this length. The next write goes behind that.
    fn truncate(&mut self, length: u64) -> io::Result<()>;

    /// When this returns, content and length survive a loss of power.
    fn sync_data(&mut self) -> io::Result<()>;

    /// The same, with all else that the file system knows of the file.
    fn sync_all(&mut self) -> io::Result<()>;

    /// Keeps room for these bytes. The file gets no longer by it.
    fn reserve(&mut self, from: u64, length: u64) -> io::Result<()>;
}
