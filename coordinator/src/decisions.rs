//! Counts the decisions that this coordinator knows. The count tells a stale cached view from a current one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Decisions of the log and of the membership. The count rises before the requester gets the answer, so a later
/// request sees the decision.
#[derive(Debug, Clone, Default)]
pub(crate) struct Decisions(Arc<AtomicU64>);

impl Decisions {
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Later looks include it.
    pub(crate) fn note(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}
