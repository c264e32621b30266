//! What the agent must not forget, in a folder of its own: which instruction it has promised to
//! follow, and which pins its kernel took last.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use reweave_agent_core::fence::Record;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum StateError {
    #[error("cannot use {} as the agent's state folder", folder.display())]
    Open { folder: PathBuf, source: io::Error },
    #[error("another agent uses the state folder {}", folder.display())]
    InUse { folder: PathBuf },
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error(
        "{} is damaged; remove it only when no coordinator still sends what it may have refused",
        path.display()
    )]
    Damaged {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// The state folder, held by one agent at a time.
pub struct Store {
    folder: PathBuf,
    _lock: File,
}

impl Store {
    pub fn open(folder: &Path) -> Result<Self, StateError> {
        let failed = |source| StateError::Open {
            folder: folder.to_owned(),
            source,
        };
        fs::create_dir_all(folder).map_err(failed)?;
        let lock = File::create(folder.join("lock")).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self {
                folder: folder.to_owned(),
                _lock: lock,
            }),
            Err(TryLockError::WouldBlock) => Err(StateError::InUse {
                folder: folder.to_owned(),
            }),
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// The record that was noted last; an empty one where none ever was.
    pub fn load(&self) -> Result<Record, StateError> {
        let path = self.record_path();
        match fs::read(&path) {
            Ok(bytes) => decode(&bytes).map_err(|source| StateError::Damaged { path, source }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Record::default()),
            Err(source) => Err(StateError::Read { path, source }),
        }
    }

    /// When this returns, the record survives a loss of power; when it fails, the one before does.
    pub fn note(&self, record: &Record) -> Result<(), StateError> {
        let path = self.record_path();
        let write = || -> io::Result<()> {
            let new = self.folder.join("fence.json.new");
            let mut file = File::create(&new)?;
            file.write_all(&encode(record)?)?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            File::open(&self.folder)?.sync_all()
        };
        write().map_err(|source| StateError::Write {
            path: path.clone(),
            source,
        })
    }

    fn record_path(&self) -> PathBuf {
        self.folder.join("fence.json")
    }
}

pub(crate) fn encode(record: &Record) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec_pretty(record)
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Record, serde_json::Error> {
    serde_json::from_slice(bytes)
}

#[cfg(test)]
mod tests {
    use reweave_agent_core::fence::InForce;
    use reweave_common::holding::Holding;
    use reweave_common::plan::Generation;
    use tempfile::TempDir;

    use super::*;

    fn folder() -> TempDir {
        tempfile::tempdir().unwrap()
    }

    fn record(generation: u64) -> Record {
        Record {
            promised: None,
            in_force: InForce {
                generation: Generation(generation),
                holding: Holding::default(),
            },
        }
    }

    #[test]
    fn the_record_noted_last_is_found_again() {
        let folder = folder();
        let store = Store::open(folder.path()).unwrap();
        assert_eq!(store.load().unwrap(), Record::default());
        store.note(&record(1)).unwrap();
        store.note(&record(2)).unwrap();
        drop(store);
        assert_eq!(
            Store::open(folder.path()).unwrap().load().unwrap(),
            record(2)
        );
    }

    #[test]
    fn two_agents_never_share_a_folder() {
        let folder = folder();
        let _first = Store::open(folder.path()).unwrap();
        let second = Store::open(folder.path());
        assert!(matches!(second, Err(StateError::InUse { .. })));
    }

    #[test]
    fn a_damaged_record_is_named_and_not_taken_for_none() {
        let folder = folder();
        let store = Store::open(folder.path()).unwrap();
        store.note(&record(1)).unwrap();
        let path = folder.path().join("fence.json");
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        let error = store.load().unwrap_err().to_string();
        assert!(error.contains("fence.json is damaged"), "{error}");
    }

    #[test]
    fn a_failed_note_leaves_the_one_before() {
        let folder = folder();
        let store = Store::open(folder.path()).unwrap();
        store.note(&record(1)).unwrap();
        // A folder in its place: the new file cannot be made.
        fs::create_dir(folder.path().join("fence.json.new")).unwrap();
        let failed = store.note(&record(2));
        assert!(matches!(failed, Err(StateError::Write { .. })));
        assert_eq!(store.load().unwrap(), record(1));
    }
}
