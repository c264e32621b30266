//! Durable state of a program: a folder that one process locks at a time, with files that are replaced atomically.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process;

use nix::unistd::{AccessFlags, access};
use reweave_files::LocalFiles;
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

/// The digits of a process id, and a line end.
const MAX_PID_BYTES: u64 = 11;

#[derive(Debug, Error)]
pub enum LockedFolderError {
    #[error("cannot use the folder {}", folder.display())]
    Open { folder: PathBuf, source: io::Error },
    #[error("another process uses the folder {}{}", folder.display(), numbered(*by))]
    InUse { folder: PathBuf, by: Option<u32> },
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error(
        "{} is damaged; remove it only when no coordinator still sends instructions that it may \
         have refused",
        path.display()
    )]
    Damaged {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// A locked folder. The lock lasts as long as this value.
#[derive(Debug)]
pub struct LockedFolder {
    path: PathBuf,
    lock: File,
}

impl Drop for LockedFolder {
    /// A forked child that has not started its program yet still has the file open.
    fn drop(&mut self) {
        let _ = self.lock.unlock();
    }
}

impl LockedFolder {
    /// Locks the folder, and creates it if necessary.
    pub fn hold(path: &Path) -> Result<Self, LockedFolderError> {
        let failed = |source| LockedFolderError::Open {
            folder: path.to_owned(),
            source,
        };
        fs::create_dir_all(path).map_err(failed)?;
        let mut lock = OpenOptions::new();
        lock.read(true).write(true).create(true).truncate(false);
        let lock = lock.open(path.join("lock")).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {
                sign(&lock);
                let path = path.to_owned();
                Ok(Self { path, lock })
            }
            Err(TryLockError::WouldBlock) => Err(LockedFolderError::InUse {
                folder: path.to_owned(),
                by: signed(&lock),
            }),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// Whether another process has locked it, or why it could not be locked. Changes nothing.
    pub fn look(path: &Path) -> Result<bool, LockedFolderError> {
        let failed = |source| LockedFolderError::Open {
            folder: path.to_owned(),
            source,
        };
        may_write(path).map_err(failed)?;
        match File::open(path.join("lock")) {
            Ok(lock) => match lock.try_lock_shared() {
                Ok(()) => Ok(false),
                Err(TryLockError::WouldBlock) => Ok(true),
                Err(TryLockError::Error(source)) => Err(failed(source)),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(failed(source)),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The last stored record of this name, or an empty one.
    pub fn load<T: DeserializeOwned + Default>(&self, name: &str) -> Result<T, LockedFolderError> {
        let path = self.path.join(name);
        match fs::read(&path) {
            Ok(bytes) => {
                decode(&bytes).map_err(|source| LockedFolderError::Damaged { path, source })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(T::default()),
            Err(source) => Err(LockedFolderError::Read { path, source }),
        }
    }

    /// Stores a record durably. If it fails, the previous record is kept.
    pub fn note<T: Serialize>(&self, name: &str, record: &T) -> Result<(), LockedFolderError> {
        let path = self.path.join(name);
        let written = encode(record).map_err(io::Error::from);
        let written = written.and_then(|content| replace(&path, &content));
        written.map_err(|source| LockedFolderError::Write { path, source })
    }
}

/// Writes the process id, for errors of other processes. A full disk does not prevent the lock.
fn sign(mut lock: &File) {
    let _ = lock
        .set_len(0)
        .and_then(|()| writeln!(lock, "{}", process::id()));
}

fn signed(lock: &File) -> Option<u32> {
    let mut text = String::new();
    lock.take(MAX_PID_BYTES).read_to_string(&mut text).ok()?;
    text.trim_end().parse().ok()
}

/// The end of messages that name the process using a folder.
pub fn numbered(process: Option<u32>) -> String {
    process.map_or_else(String::new, |number| format!(": process {number}"))
}

/// Checks that files can be created in this folder, or the folder itself.
fn may_write(folder: &Path) -> io::Result<()> {
    let there = folder.ancestors().find(|ancestor| ancestor.exists());
    let there = there.unwrap_or(Path::new("."));
    if !there.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    Ok(access(there, AccessFlags::W_OK | AccessFlags::X_OK)?)
}

/// Encodes a record readably.
pub fn encode<T: Serialize>(record: &T) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec_pretty(record)
}

pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, serde_json::Error> {
    serde_json::from_slice(bytes)
}

/// Replaces the file atomically.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    reweave_files::replace(&LocalFiles, path, content)
}

/// Writes the new file, durable, under another name.
pub fn write_beside(path: &Path, content: &[u8]) -> io::Result<File> {
    reweave_files::write_beside(&LocalFiles, path, content)
}

/// Renames the new file over the old one.
pub fn take_place(path: &Path) -> io::Result<()> {
    reweave_files::take_place(&LocalFiles, path)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    const RECORD_FILE: &str = "record.json";

    fn scratch() -> (TempDir, LockedFolder) {
        let scratch = tempfile::tempdir().unwrap();
        let folder = LockedFolder::hold(scratch.path()).unwrap();
        (scratch, folder)
    }

    #[test]
    fn last_record_is_loaded() {
        let (scratch, folder) = scratch();
        assert!(folder.load::<Vec<u64>>(RECORD_FILE).unwrap().is_empty());
        folder.note(RECORD_FILE, &[1]).unwrap();
        folder.note(RECORD_FILE, &[2]).unwrap();
        drop(folder);
        let again = LockedFolder::hold(scratch.path()).unwrap();
        assert_eq!(again.load::<Vec<u64>>(RECORD_FILE).unwrap(), [2]);
        assert!(again.load::<Vec<u64>>("other.json").unwrap().is_empty());
    }

    /// A child between fork and exec has a copy of the lock.
    #[test]
    fn folder_unlocks_despite_copied_lock() {
        let folder = tempfile::tempdir().unwrap();
        let held = LockedFolder::hold(folder.path()).unwrap();
        let copy = held.lock.try_clone().unwrap();
        drop(held);
        LockedFolder::hold(folder.path()).unwrap();
        drop(copy);
    }

    #[test]
    fn folder_has_one_holder() {
        let (scratch, _first) = scratch();
        let second = LockedFolder::hold(scratch.path());
        let by = Some(process::id());
        let named =
            matches!(&second, Err(LockedFolderError::InUse { by: report, .. }) if *report == by);
        assert!(named, "{second:?}");
        let words = second.unwrap_err().to_string();
        assert!(
            words.ends_with(&format!(": process {}", process::id())),
            "{words}"
        );
    }

    #[test]
    fn damaged_record_is_named() {
        let (scratch, folder) = scratch();
        folder.note(RECORD_FILE, &[1, 2, 3]).unwrap();
        let path = scratch.path().join(RECORD_FILE);
        let whole = fs::read_to_string(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let error = folder
                .load::<Vec<u64>>(RECORD_FILE)
                .unwrap_err()
                .to_string();
            assert!(error.contains("record.json is damaged"), "{error}");
        }
    }

    #[test]
    fn failed_write_keeps_previous_record() {
        let (scratch, folder) = scratch();
        folder.note(RECORD_FILE, &[1]).unwrap();
        // A folder with that name prevents the new file.
        fs::create_dir(scratch.path().join("record.json.new")).unwrap();
        let failed = folder.note(RECORD_FILE, &[2]);
        assert!(
            matches!(failed, Err(LockedFolderError::Write { .. })),
            "{failed:?}"
        );
        assert_eq!(folder.load::<Vec<u64>>(RECORD_FILE).unwrap(), [1]);
    }
}
