//! The log's disk operations on this machine.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::statvfs::statvfs;
use reweave_replica::{
    Batch, Compaction, Disk, DiskFile, LogError, Written, discard_compacted, write_compacted,
};

#[derive(Debug, Clone, Copy)]
pub(crate) struct LocalDisk;

#[derive(Debug)]
pub(crate) struct LocalFile(File);

impl Disk for LocalDisk {
    type File = LocalFile;
    type Compaction = LocalCompaction;

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    fn open(&self, path: &Path) -> io::Result<LocalFile> {
        let mut file = OpenOptions::new().write(true).open(path)?;
        file.seek(SeekFrom::End(0))?;
        Ok(LocalFile(file))
    }

    fn create(&self, path: &Path) -> io::Result<LocalFile> {
        File::create(path).map(LocalFile)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }

    fn free_bytes(&self, path: &Path) -> Option<u64> {
        let found = statvfs(path).ok()?;
        Some(
            found
                .blocks_available()
                .saturating_mul(found.fragment_size()),
        )
    }

    /// Compacts on a separate thread.
    fn compact(&self, path: &Path, whole: Batch) -> io::Result<LocalCompaction> {
        let log = path.to_owned();
        let thread = thread::Builder::new().name("log-compact".to_owned());
        let write = move || write_compacted(&LocalDisk, &log, &whole);
        Ok(LocalCompaction {
            thread: Some(thread.spawn(write)?),
            log: path.to_owned(),
        })
    }
}

impl DiskFile for LocalFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)
    }

    fn overwrite(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, 0)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.0.set_len(length)?;
        self.0.seek(SeekFrom::Start(length)).map(drop)
    }

    fn sync_data(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn sync_all(&mut self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn reserve(&mut self, from: u64, length: u64) -> io::Result<()> {
        let [from, length] = [from, length].map(|it| i64::try_from(it).unwrap_or(i64::MAX));
        let keeping = FallocateFlags::FALLOC_FL_KEEP_SIZE;
        Ok(fallocate(&self.0, keeping, from, length)?)
    }
}

#[derive(Debug)]
pub(crate) struct LocalCompaction {
    log: PathBuf,
    /// Gone once it was waited for.
    thread: Option<JoinHandle<Result<Written<LocalFile>, LogError>>>,
}

impl Compaction for LocalCompaction {
    type File = LocalFile;

    fn is_written(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn finish(mut self) -> Result<Written<LocalFile>, LogError> {
        let written = self.thread.take().and_then(|thread| thread.join().ok());
        written.unwrap_or_else(|| {
            Err(LogError::File {
                what: "compact",
                path: self.log.clone(),
                source: io::Error::other("the thread died"),
            })
        })
    }
}

impl Drop for LocalCompaction {
    /// Waits until nothing is written in the folder any longer, and leaves no temporary file there.
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
            discard_compacted(&LocalDisk, &self.log);
        }
    }
}

#[cfg(test)]
impl LocalFile {
    /// A disk that cannot be written to.
    pub(crate) fn readable(path: &Path) -> Self {
        Self(File::open(path).unwrap())
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};

    use nix::errno::Errno;

    use super::*;

    #[test]
    fn reserve_is_no_part_of_file() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut file = LocalDisk.create(log.path()).unwrap();
        file.append(b"an entry").unwrap();
        file.reserve(8, 1 << 20).unwrap();
        assert_eq!(fs::read(log.path()).unwrap(), b"an entry");
        file.append(b" more").unwrap();
        assert_eq!(fs::read(log.path()).unwrap(), b"an entry more");
    }

    #[test]
    fn next_append_goes_behind_cut() {
        let log = tempfile::NamedTempFile::new().unwrap();
        fs::write(log.path(), "an entry, and half of").unwrap();
        let mut file = LocalDisk.open(log.path()).unwrap();
        file.truncate(8).unwrap();
        file.append(b" more").unwrap();
        assert_eq!(fs::read(log.path()).unwrap(), b"an entry more");
    }

    #[test]
    fn missing_space_has_error_kinds() {
        let kinds = [Errno::ENOSPC, Errno::EDQUOT].map(|it| io::Error::from(it).kind());
        assert_eq!(kinds, [StorageFull, QuotaExceeded]);
        let log = tempfile::NamedTempFile::new().unwrap();
        let refused = LocalFile::readable(log.path()).reserve(0, 1 << 20);
        let kind = refused.unwrap_err().kind();
        assert!(![StorageFull, QuotaExceeded].contains(&kind), "{kind:?}");
    }
}
