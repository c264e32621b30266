//! The session over which an agent, or the driver of optical switches, gets its instructions.
//!
//! This limits nothing: it is the table by which instructions are sent.

use std::collections::BTreeMap;

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::intake::{Outbox, SessionId};

/// Dropping the outbox of a session ends it.
#[derive(Debug)]
pub(super) struct Outboxes<K, T>(BTreeMap<K, SessionOutbox<T>>);

#[derive(Debug)]
struct SessionOutbox<T> {
    session: SessionId,
    outbox: Outbox<T>,
}

impl<K, T> Default for Outboxes<K, T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Copy, T> Outboxes<K, T> {
    /// Whether a later session is here already.
    pub(super) fn is_late(&self, key: K, session: SessionId) -> bool {
        let held = self.0.get(&key);
        held.is_some_and(|held| held.session > session)
    }

    pub(super) fn insert(&mut self, key: K, session: SessionId, outbox: Outbox<T>) {
        self.0.insert(key, SessionOutbox { session, outbox });
    }

    /// Whether there was one.
    pub(super) fn remove(&mut self, key: K) -> bool {
        self.0.remove(&key).is_some()
    }

    pub(super) fn holds(&self, key: K, session: SessionId) -> bool {
        let held = self.0.get(&key);
        held.is_some_and(|held| held.session == session)
    }

    pub(super) fn of_session(&self, session: SessionId) -> Vec<K> {
        let of = self.0.iter().filter(|(_, held)| held.session == session);
        of.map(|(&key, _)| key).collect()
    }

    pub(super) fn keys(&self) -> Vec<K> {
        self.0.keys().copied().collect()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// A client that accepts no messages counts as disconnected: its session ends, and it may reconnect.
    pub(super) fn send(&mut self, key: K, instruction: T) {
        let Some(held) = self.0.get_mut(&key) else {
            return;
        };
        if let Err(TrySendError::Full(_)) = held.outbox.try_send(Box::new(instruction)) {
            // Its task sees that nothing leads to it any longer, ends, and says that it left.
            let (nowhere, _) = mpsc::channel(1);
            held.outbox = nowhere;
        }
    }
}
