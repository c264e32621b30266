//! The current deny lists of this process.

use std::sync::Arc;

use reweave_common::member::{DenyList, DenyLists};
use tokio::sync::watch;

/// Shared by all verifiers with the same identity.
#[derive(Debug, Clone)]
pub(crate) struct SharedDenyList(Arc<watch::Sender<DenyLists>>);

impl Default for SharedDenyList {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(DenyLists::default())))
    }
}

impl SharedDenyList {
    pub(crate) fn set(&self, revoked: DenyList) {
        self.0.send_if_modified(|held| {
            let changed = held.revoked != revoked;
            held.revoked = revoked;
            changed
        });
    }

    pub(crate) fn set_all(&self, lists: DenyLists) {
        self.0.send_if_modified(|held| {
            let changed = *held != lists;
            *held = lists;
            changed
        });
    }

    /// Changes the lists in one step: several sessions may change them.
    pub(crate) fn change(&self, change: impl FnOnce(&mut DenyLists)) {
        self.0.send_if_modified(|held| {
            let before = held.clone();
            change(held);
            *held != before
        });
    }

    pub(crate) fn now(&self) -> watch::Ref<'_, DenyLists> {
        self.0.borrow()
    }

    pub(crate) fn follow(&self) -> watch::Receiver<DenyLists> {
        self.0.subscribe()
    }
}
