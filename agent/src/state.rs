//! The agent's durable state, in a folder of its own: the instruction that it has promised to follow, and the last
//! pins of its kernel.

use std::path::Path;

use reweave_agent_core::fence::Record;
use reweave_common::forwarding_state::ForwardingState;
use reweave_link::durable_files::{LockedFolder, LockedFolderError};
use serde::{Deserialize, Serialize};

const FENCE_FILE: &str = "fence.json";
const BY_HAND_FILE: &str = "by-hand.json";

/// The last manual change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByHand {
    pub before: ForwardingState,
    pub after: ForwardingState,
}

/// The state folder, locked by one agent at a time.
pub struct Store(LockedFolder);

impl Store {
    pub fn open(folder: &Path) -> Result<Self, LockedFolderError> {
        LockedFolder::hold(folder).map(Self)
    }

    /// The record that was noted last; an empty one where none ever was.
    pub fn load(&self) -> Result<Record, LockedFolderError> {
        self.0.load(FENCE_FILE)
    }

    /// When this returns, the record survives a loss of power; when it fails, the one before does.
    pub fn note(&self, record: &Record) -> Result<(), LockedFolderError> {
        self.0.note(FENCE_FILE, record)
    }

    pub fn load_by_hand(&self) -> Result<Option<ByHand>, LockedFolderError> {
        self.0.load(BY_HAND_FILE)
    }

    pub fn note_by_hand(&self, change: &ByHand) -> Result<(), LockedFolderError> {
        self.0.note(BY_HAND_FILE, change)
    }
}

#[cfg(test)]
mod tests {
    use reweave_agent_core::fence::InForce;
    use reweave_common::plan::Generation;

    use super::*;

    #[test]
    fn last_record_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let record = Record {
            promised: None,
            in_force: InForce {
                generation: Generation(1),
                holding: ForwardingState::default(),
            },
            fallback: None,
        };
        let store = Store::open(folder.path()).unwrap();
        assert_eq!(store.load().unwrap(), Record::default());
        store.note(&record).unwrap();
        drop(store);
        assert_eq!(Store::open(folder.path()).unwrap().load().unwrap(), record);
    }
}
