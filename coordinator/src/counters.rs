//! Counters of decisions, instructions and events since this program started.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use reweave_common::lock::lock;
use reweave_core::{Change, Decision};

/// Counted where events happen, for monitoring.
#[derive(Debug)]
pub(crate) struct EventCounters<K>(Arc<Mutex<BTreeMap<K, u64>>>);

impl<K> Default for EventCounters<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K> Clone for EventCounters<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K: Ord> EventCounters<K> {
    pub(crate) fn note(&self, what: K) {
        *lock(&self.0).entry(what).or_default() += 1;
    }

    pub(crate) fn of(&self, what: &K) -> u64 {
        lock(&self.0).get(what).copied().unwrap_or_default()
    }
}

/// How a plan ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ending {
    Committed,
    RolledBack,
    Refused,
    Withdrawn,
}

impl Ending {
    pub(crate) const ALL: [Self; 4] = [
        Self::Committed,
        Self::RolledBack,
        Self::Refused,
        Self::Withdrawn,
    ];

    /// What ends no plan has none. One that did not keep its promise ends when it is rolled back.
    pub(crate) fn of(change: &Change) -> Option<Self> {
        match change {
            Change::Verified { verdict, .. } => {
                (verdict.decision == Decision::Commit).then_some(Self::Committed)
            }
            Change::RolledBack { .. } => Some(Self::RolledBack),
            Change::PlanRefused { .. } => Some(Self::Refused),
            Change::PlanWithdrawn { .. } => Some(Self::Withdrawn),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Committed => "committed",
            Self::RolledBack => "rolled_back",
            Self::Refused => "refused",
            Self::Withdrawn => "withdrawn",
        }
    }
}

/// The outcome of an event for another program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fate {
    Taken,
    /// Tried again and again without success.
    Failed,
    /// Too much waited before it.
    Dropped,
}

impl Fate {
    pub(crate) const ALL: [Self; 3] = [Self::Taken, Self::Failed, Self::Dropped];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Failed => "failed",
            Self::Dropped => "dropped",
        }
    }
}
