//! The deny list that this process has now.

use std::sync::Arc;

use reweave_common::member::DenyList;
use tokio::sync::watch;

/// Shared by all verifiers with the same identity.
#[derive(Debug, Clone)]
pub(crate) struct SharedDenyList(Arc<watch::Sender<DenyList>>);

impl Default for SharedDenyList {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(DenyList::default())))
    }
}

impl SharedDenyList {
    pub(crate) fn set(&self, list: DenyList) {
        self.0.send_if_modified(|held| {
            let changed = *held != list;
            *held = list;
            changed
        });
    }

    pub(crate) fn now(&self) -> watch::Ref<'_, DenyList> {
        self.0.borrow()
    }

    pub(crate) fn follow(&self) -> watch::Receiver<DenyList> {
        self.0.subscribe()
    }
}
