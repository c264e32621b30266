//! The operations on files that durable state rests on. Tests put a disk in their place that loses power.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Files by their paths. A write may be lost until its file is synced; a name, until its folder is.
pub trait FileSystem: Debug {
    type File: FileHandle;

    /// The whole content of a file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// An empty file, in place of the one that had this path.
    fn create(&self, path: &Path) -> io::Result<Self::File>;

    /// For writing behind the end. Made where it is not there, and then only its owner can read it.
    fn append(&self, path: &Path) -> io::Result<Self::File>;

    /// Takes the place of the file that had the second path.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    fn remove(&self, path: &Path) -> io::Result<()>;

    /// The paths of all that lies in a folder, in no order.
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>>;

    /// With those above it that are not there.
    fn make_folder(&self, folder: &Path) -> io::Result<()>;

    /// When this returns, the names in the folder survive a loss of power.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
}

/// A file that is open for writing.
pub trait FileHandle: Debug + io::Write {
    /// In bytes.
    fn length(&self) -> io::Result<u64>;

    /// Cuts the file to this length.
    fn truncate(&mut self, length: u64) -> io::Result<()>;

    /// When this returns, content and length survive a loss of power.
    fn sync_data(&mut self) -> io::Result<()>;

    /// The same, with all else that the file system knows of the file.
    fn sync_all(&mut self) -> io::Result<()>;
}

/// Those of this machine.
#[derive(Debug, Clone, Copy)]
pub struct LocalFiles;

impl FileSystem for LocalFiles {
    type File = File;

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    fn create(&self, path: &Path) -> io::Result<File> {
        File::create(path)
    }

    fn append(&self, path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o600).open(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let entries = fs::read_dir(folder)?;
        entries.map(|entry| Ok(entry?.path())).collect()
    }

    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }
}

impl FileHandle for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }

    fn sync_data(&mut self) -> io::Result<()> {
        File::sync_data(self)
    }

    fn sync_all(&mut self) -> io::Result<()> {
        File::sync_all(self)
    }
}
