//! A disk in memory that keeps everything. Compactions can be refused, and another process can write between two reads.
//!
//! It stays beside the simulated disk that loses power: that one has no way to give a file other content between two reads of one
//! start, and no compaction that cannot be started. What a loss of power does to a log is tested with that one.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use reweave_files::{Entry, FileHandle, FileSystem};

use crate::{Batch, Compaction, LogError, LogStorage, Written, write_compacted};

type EntryContent = Rc<RefCell<Vec<u8>>>;
type Names = BTreeMap<PathBuf, EntryContent>;

/// Cheap to clone: all clones are one disk.
#[derive(Debug, Clone, Default)]
pub(super) struct MemoryDisk {
    names: Rc<RefCell<Names>>,
    /// The content of all files after the next read.
    next: Rc<RefCell<Option<Names>>>,
    lack: Rc<Cell<Lack>>,
    free_bytes: Rc<Cell<Option<u64>>>,
}

/// How a compaction fails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Lack {
    #[default]
    Nothing,
    /// It cannot be started.
    Thread,
    /// It is started and finds no space.
    Room,
}

#[derive(Debug)]
pub(super) struct MemoryFile {
    content: EntryContent,
    has_room: bool,
}

/// A compaction that is written when it is awaited.
#[derive(Debug)]
pub(super) struct MemoryCompaction {
    disk: MemoryDisk,
    log: PathBuf,
    whole: Batch,
}

impl MemoryDisk {
    /// Fails compactions from now on.
    pub(super) fn lacks(&self, lack: Lack) {
        self.lack.set(lack);
    }

    pub(super) fn leaves(&self, free_bytes: u64) {
        self.free_bytes.set(Some(free_bytes));
    }

    /// The same files on another disk.
    pub(super) fn copy(&self) -> Self {
        let disk = Self::default();
        *disk.names.borrow_mut() = self.copied();
        disk
    }

    /// After the next read, this disk has the other one's present content.
    pub(super) fn goes_on_as(&self, other: &Self) {
        *self.next.borrow_mut() = Some(other.copied());
    }

    fn copied(&self) -> Names {
        let names = self.names.borrow();
        let copied = names.iter().map(|(path, content)| {
            let content = content.borrow().clone();
            (path.clone(), Rc::new(RefCell::new(content)))
        });
        copied.collect()
    }

    fn content(&self, path: &Path) -> io::Result<EntryContent> {
        let content = self.names.borrow().get(path).cloned();
        content.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl FileSystem for MemoryDisk {
    type File = MemoryFile;

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let content = self.content(path)?;
        let next = self.next.borrow_mut().take();
        if let Some(next) = next {
            *self.names.borrow_mut() = next;
        }
        let bytes = content.borrow().clone();
        Ok(bytes)
    }

    fn open(&self, path: &Path) -> io::Result<MemoryFile> {
        let content = self.content(path)?;
        let has_room = true;
        Ok(MemoryFile { content, has_room })
    }

    fn create(&self, path: &Path) -> io::Result<MemoryFile> {
        let content = EntryContent::default();
        let mut names = self.names.borrow_mut();
        names.insert(path.to_owned(), Rc::clone(&content));
        let has_room = self.lack.get() != Lack::Room;
        Ok(MemoryFile { content, has_room })
    }

    fn create_new(&self, path: &Path) -> io::Result<MemoryFile> {
        if self.content(path).is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.create(path)
    }

    fn append(&self, path: &Path) -> io::Result<MemoryFile> {
        self.open(path).or_else(|_| self.create(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let content = self.content(from)?;
        let mut names = self.names.borrow_mut();
        names.remove(from);
        names.insert(to.to_owned(), content);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let removed = self.names.borrow_mut().remove(path);
        removed
            .map(drop)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let names = self.names.borrow();
        let inside = names.keys().filter(|path| path.parent() == Some(folder));
        Ok(inside.cloned().collect())
    }

    fn entry(&self, path: &Path) -> io::Result<Entry> {
        let bytes = self.content(path)?.borrow().len() as u64;
        Ok(Entry::File { bytes })
    }

    fn make_folder(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn free_bytes(&self, _: &Path) -> Option<u64> {
        self.free_bytes.get()
    }
}

impl LogStorage for MemoryDisk {
    type Files = Self;
    type Compaction = MemoryCompaction;

    fn files(&self) -> &Self {
        self
    }

    fn compact(&self, path: &Path, whole: Batch) -> io::Result<MemoryCompaction> {
        if self.lack.get() == Lack::Thread {
            return Err(io::Error::other("no more threads"));
        }
        Ok(MemoryCompaction {
            disk: self.clone(),
            log: path.to_owned(),
            whole,
        })
    }
}

impl io::Write for MemoryFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.has_room {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.content.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl FileHandle for MemoryFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.content.borrow().len() as u64)
    }

    fn overwrite(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut content = self.content.borrow_mut();
        let written = bytes.len().min(content.len());
        let rest = content.split_off(written);
        *content = [bytes, &rest].concat();
        Ok(())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        let length = usize::try_from(length).map_err(io::Error::other)?;
        self.content.borrow_mut().truncate(length);
        Ok(())
    }

    fn sync_data(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn sync_all(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn reserve(&mut self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }
}

impl Compaction for MemoryCompaction {
    type File = MemoryFile;

    fn is_written(&self) -> bool {
        true
    }

    fn finish(self) -> Result<Written<MemoryFile>, LogError> {
        write_compacted(&self.disk, &self.log, &self.whole)
    }
}
