//! A disk in memory that loses power: unsynced contents and names may be lost. Tests of other packages use it, too.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::{FileHandle, FileSystem};

/// This folder always exists.
pub(super) const ROOT: &str = "data";

/// Cheap to clone: all clones are one disk.
#[derive(Debug, Clone, Default)]
pub(super) struct LossyFiles(Rc<RefCell<State>>);

#[derive(Debug)]
pub(super) struct LossyFile {
    disk: LossyFiles,
    number: usize,
}

#[derive(Debug, Default)]
struct State {
    contents: Vec<FileContent>,
    /// Folders have an empty content, too.
    names: BTreeMap<PathBuf, usize>,
    synced_names: BTreeMap<PathBuf, usize>,
    /// The remaining operations until power is lost.
    left: Option<usize>,
    is_dead: bool,
}

#[derive(Debug, Default)]
struct FileContent {
    now: Vec<u8>,
    synced: Vec<u8>,
}

impl FileContent {
    fn lose_power(&mut self, kept_bytes: usize) {
        match self.now.strip_prefix(&self.synced[..]) {
            Some(appended) => {
                let kept = appended.len().min(kept_bytes);
                self.synced.extend_from_slice(&appended[..kept]);
            }
            // The truncation itself may be lost.
            None if kept_bytes == 0 => {}
            None => self.synced.clone_from(&self.now),
        }
        self.now.clone_from(&self.synced);
    }
}

impl State {
    /// Counts an operation. Power is lost during the last one.
    fn operate(&mut self) -> io::Result<()> {
        match &mut self.left {
            Some(0) => self.is_dead = true,
            Some(left) => *left -= 1,
            None => {}
        }
        self.expect_power()
    }

    fn expect_power(&self) -> io::Result<()> {
        if self.is_dead {
            Err(io::Error::other("the power is gone"))
        } else {
            Ok(())
        }
    }

    fn find(&self, path: &Path) -> io::Result<usize> {
        self.expect_power()?;
        let number = self.names.get(path).copied();
        number.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Creates an empty file, if there is none of this name.
    fn make(&mut self, path: &Path) -> io::Result<usize> {
        self.operate()?;
        if let Some(number) = self.names.get(path) {
            return Ok(*number);
        }
        self.contents.push(FileContent::default());
        let number = self.contents.len() - 1;
        self.names.insert(path.to_owned(), number);
        Ok(number)
    }

    /// Removes the content of removed folders.
    fn drop_orphans(&mut self) {
        let names = self.synced_names.clone();
        let is_there = |path: &Path| path == Path::new(ROOT) || names.contains_key(path);
        let has_folder = |path: &Path| path.parent().is_some_and(is_there);
        self.synced_names.retain(|path, _| has_folder(path));
    }
}

impl LossyFiles {
    /// Power is lost during the operation after this many. A disk that had died before continues with everything that
    /// was written, as after a killed process.
    pub(super) fn die_at(&self, operations: usize) {
        let mut state = self.0.borrow_mut();
        (state.left, state.is_dead) = (Some(operations), false);
    }

    /// Loses power and restores it. At most this many bytes survive of each file's unsynced appends. Unsynced names
    /// survive if their number is even.
    pub(super) fn lose_power(&self, kept_bytes: usize) {
        let mut state = self.0.borrow_mut();
        (state.left, state.is_dead) = (None, false);
        if kept_bytes.is_multiple_of(2) {
            state.synced_names = state.names.clone();
        }
        state.drop_orphans();
        state.names = state.synced_names.clone();
        for content in &mut state.contents {
            content.lose_power(kept_bytes);
        }
    }

    fn file(&self, number: usize) -> LossyFile {
        let disk = self.clone();
        LossyFile { disk, number }
    }
}

impl FileSystem for LossyFiles {
    type File = LossyFile;

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let state = self.0.borrow();
        let number = state.find(path)?;
        Ok(state.contents[number].now.clone())
    }

    fn create(&self, path: &Path) -> io::Result<LossyFile> {
        let mut state = self.0.borrow_mut();
        let number = state.make(path)?;
        state.contents[number].now.clear();
        Ok(self.file(number))
    }

    fn append(&self, path: &Path) -> io::Result<LossyFile> {
        let number = self.0.borrow_mut().make(path)?;
        Ok(self.file(number))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        let number = state.find(from)?;
        state.operate()?;
        state.names.remove(from);
        state.names.insert(to.to_owned(), number);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        state.find(path)?;
        state.operate()?;
        state.names.remove(path);
        Ok(())
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        let state = self.0.borrow();
        state.find(folder)?;
        let names = state.names.keys();
        let inside = names.filter(|path| path.parent() == Some(folder));
        Ok(inside.cloned().collect())
    }

    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        self.0.borrow_mut().make(folder).map(drop)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        state.operate()?;
        let is_inside = |path: &Path| path.parent() == Some(folder);
        let now = state.names.iter().filter(|(path, _)| is_inside(path));
        let now: Vec<_> = now.map(|(path, number)| (path.clone(), *number)).collect();
        state.synced_names.retain(|path, _| !is_inside(path));
        state.synced_names.extend(now);
        Ok(())
    }
}

impl io::Write for LossyFile {
    /// Half of the write survives a loss of power during it.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.disk.0.borrow_mut();
        state.expect_power()?;
        let done = state.operate();
        let written = match done {
            Ok(()) => bytes.len(),
            Err(_) => bytes.len() / 2,
        };
        let content = &mut state.contents[self.number].now;
        content.extend_from_slice(&bytes[..written]);
        done.map(|()| written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl FileHandle for LossyFile {
    fn length(&self) -> io::Result<u64> {
        let state = self.disk.0.borrow();
        Ok(state.contents[self.number].now.len() as u64)
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        let mut state = self.disk.0.borrow_mut();
        state.operate()?;
        let length = usize::try_from(length).map_err(io::Error::other)?;
        state.contents[self.number].now.truncate(length);
        Ok(())
    }

    fn sync_data(&mut self) -> io::Result<()> {
        let mut state = self.disk.0.borrow_mut();
        state.operate()?;
        let content = &mut state.contents[self.number];
        content.synced.clone_from(&content.now);
        Ok(())
    }

    fn sync_all(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}
