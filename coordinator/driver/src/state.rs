//! What the driver must not forget: which instruction it has promised to follow for each optical
//! switch. Whoever holds the folder is the one process that may speak to the devices.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::fence::Record;

#[derive(Debug, Error)]
pub enum StateError {
    #[error("cannot use {} as the driver's state folder", folder.display())]
    Open { folder: PathBuf, source: io::Error },
    #[error("another driver uses the state folder {}", folder.display())]
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

/// Whose instructions are noted. Those of a coordinator are numbered by it, so an operator's have
/// to be kept apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    Coordinators,
    Operators,
}

/// The state folder, held by one driver at a time.
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

    /// What was noted last of this optical switch; an empty record where nothing ever was.
    pub fn load(&self, whose: Whose, optical: &str) -> Result<Record, StateError> {
        let path = self.path(whose, optical);
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|source| StateError::Damaged { path, source }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Record::default()),
            Err(source) => Err(StateError::Read { path, source }),
        }
    }

    /// When this returns, the record survives a loss of power; when it fails, the one before does.
    pub fn note(&self, whose: Whose, optical: &str, record: &Record) -> Result<(), StateError> {
        let path = self.path(whose, optical);
        let write = || -> io::Result<()> {
            let new = path.with_extension("json.new");
            let mut file = File::create(&new)?;
            file.write_all(&serde_json::to_vec_pretty(record)?)?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            File::open(&self.folder)?.sync_all()
        };
        write().map_err(|source| StateError::Write {
            path: path.clone(),
            source,
        })
    }

    /// Names are those of the configuration, which are checked to be no paths.
    fn path(&self, whose: Whose, optical: &str) -> PathBuf {
        let kind = match whose {
            Whose::Coordinators => "optical",
            Whose::Operators => "by-hand",
        };
        self.folder.join(format!("{kind}-{optical}.json"))
    }
}

#[cfg(test)]
mod tests {
    use reweave_common::circuit::Switchover;
    use reweave_common::instruction::Token;
    use reweave_common::plan::Generation;

    use super::*;
    use crate::examples::circuits;

    #[test]
    fn the_record_noted_last_is_found_again_and_each_switch_has_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let record = Record {
            promised: Some(Switchover {
                generation: Generation(1),
                token: Token(2),
                optical: "ocs0".to_owned(),
                expected: circuits(&[(1, 5)]),
                desired: circuits(&[]),
            }),
            answered: None,
        };
        store.note(Whose::Operators, "ocs0", &record).unwrap();
        let second = Store::open(folder.path());
        assert!(matches!(second, Err(StateError::InUse { .. })));
        drop(store);
        let store = Store::open(folder.path()).unwrap();
        assert_eq!(store.load(Whose::Operators, "ocs0").unwrap(), record);
        let nothing = Record::default();
        assert_eq!(store.load(Whose::Operators, "ocs1").unwrap(), nothing);
        assert_eq!(store.load(Whose::Coordinators, "ocs0").unwrap(), nothing);
    }
}
