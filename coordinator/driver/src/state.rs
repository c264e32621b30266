//! The driver's durable state: the instruction that it has promised to follow for each optical switch. The process
//! that holds the folder's lock is the only one that may speak to the devices.

use std::path::Path;

use reweave_link::durable_files::{LockedFolder, LockedFolderError};

use crate::fence::Record;

/// The origin of a recorded instruction. A coordinator numbers its instructions, so an operator's are kept apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    Coordinators,
    Operators,
}

/// The state folder, locked by one driver at a time.
pub struct Store(LockedFolder);

impl Store {
    pub fn open(folder: &Path) -> Result<Self, LockedFolderError> {
        LockedFolder::hold(folder).map(Self)
    }

    /// What was noted last of this optical switch; an empty record where nothing ever was.
    pub fn load(&self, whose: Whose, optical: &str) -> Result<Record, LockedFolderError> {
        self.0.load(&file(whose, optical))
    }

    /// When this returns, the record survives a loss of power; when it fails, the one before does.
    pub fn note(
        &self,
        whose: Whose,
        optical: &str,
        record: &Record,
    ) -> Result<(), LockedFolderError> {
        self.0.note(&file(whose, optical), record)
    }
}

/// Names are those of the configuration, which are checked to be no paths.
fn file(whose: Whose, optical: &str) -> String {
    let kind = match whose {
        Whose::Coordinators => "optical",
        Whose::Operators => "by-hand",
    };
    format!("{kind}-{optical}.json")
}

#[cfg(test)]
mod tests {
    use reweave_common::circuit::Switchover;
    use reweave_common::instruction::Token;
    use reweave_common::plan::Generation;

    use super::*;
    use crate::examples::circuits;

    #[test]
    fn last_record_is_loaded_per_switch() {
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
        assert!(matches!(second, Err(LockedFolderError::InUse { .. })));
        drop(store);
        let store = Store::open(folder.path()).unwrap();
        assert_eq!(store.load(Whose::Operators, "ocs0").unwrap(), record);
        let nothing = Record::default();
        assert_eq!(store.load(Whose::Operators, "ocs1").unwrap(), nothing);
        assert_eq!(store.load(Whose::Coordinators, "ocs0").unwrap(), nothing);
    }
}
