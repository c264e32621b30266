//! Who has a session: an agent for its node, a driver for its optical switches.

use std::collections::BTreeMap;

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use crate::intake::{Outbox, SessionId};

/// Letting go of a seat ends the session that leads to nowhere else.
#[derive(Debug)]
pub(super) struct Seats<K, T>(BTreeMap<K, Seat<T>>);

#[derive(Debug)]
struct Seat<T> {
    session: SessionId,
    outbox: Outbox<T>,
}

impl<K, T> Default for Seats<K, T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Copy, T> Seats<K, T> {
    /// Whether a later session is here already.
    pub(super) fn is_late(&self, key: K, session: SessionId) -> bool {
        let held = self.0.get(&key);
        held.is_some_and(|held| held.session > session)
    }

    pub(super) fn insert(&mut self, key: K, session: SessionId, outbox: Outbox<T>) {
        self.0.insert(key, Seat { session, outbox });
    }

    /// Whether there was one.
    pub(super) fn remove(&mut self, key: K) -> bool {
        self.0.remove(&key).is_some()
    }

    pub(super) fn holds(&self, key: K, session: SessionId) -> bool {
        let seat = self.0.get(&key);
        seat.is_some_and(|seat| seat.session == session)
    }

    pub(super) fn of_session(&self, session: SessionId) -> Vec<K> {
        let of = self.0.iter().filter(|(_, seat)| seat.session == session);
        of.map(|(&key, _)| key).collect()
    }

    pub(super) fn keys(&self) -> Vec<K> {
        self.0.keys().copied().collect()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Who takes nothing is as good as gone: its session ends, and it comes back or not.
    pub(super) fn send(&mut self, key: K, instruction: T) {
        let Some(seat) = self.0.get_mut(&key) else {
            return;
        };
        if let Err(TrySendError::Full(_)) = seat.outbox.try_send(Box::new(instruction)) {
            // Its task sees that nobody leads to it any more, ends, and says that it left.
            let (nowhere, _) = mpsc::channel(1);
            seat.outbox = nowhere;
        }
    }
}
