//! The machine that speaks for each node, and for each optical switch: of two machines with one certificate, one at a
//! time.
//!
//! This is no [`crate::session_limit`]: the address and the admission of the session decide, and the event loop ends
//! the session that loses its lock.
//!
//! The present session stays. If a newer one replaced it, the two would evict each other forever, and neither would
//! be accepted for long. A session from the same address counts as the same machine, whose agent was restarted. A
//! session that was admitted by a newer token is meant to take over.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use reweave_common::lock::lock;
use reweave_common::member::Admission;

use crate::intake::SessionId;

#[derive(Debug, Clone)]
pub(crate) struct IdentityLocks<K: Ord>(Arc<Mutex<BTreeMap<K, Holder>>>);

impl<K: Ord> Default for IdentityLocks<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Holder {
    session: SessionId,
    address: SocketAddr,
    admission: Admission,
}

/// Released when it is dropped.
#[derive(Debug)]
pub(super) struct IdentityLock<K: Ord> {
    locks: IdentityLocks<K>,
    identity: K,
    by: SessionId,
}

impl<K: Ord + Copy> IdentityLocks<K> {
    /// The lock for this session, or the address of the other machine that holds it.
    pub(super) fn take(
        &self,
        identity: K,
        by: SessionId,
        address: SocketAddr,
        admission: Admission,
    ) -> Result<IdentityLock<K>, SocketAddr> {
        let mut holders = lock(&self.0);
        let other = holders
            .get(&identity)
            .filter(|holder| holder.address.ip() != address.ip() && holder.admission >= admission);
        if let Some(other) = other {
            return Err(other.address);
        }
        let holder = Holder {
            session: by,
            address,
            admission,
        };
        holders.insert(identity, holder);
        let locks = Self(Arc::clone(&self.0));
        Ok(IdentityLock {
            locks,
            identity,
            by,
        })
    }
}

impl<K: Ord + Copy> IdentityLock<K> {
    pub(super) fn identity(&self) -> K {
        self.identity
    }
}

impl<K: Ord> Drop for IdentityLock<K> {
    fn drop(&mut self) {
        let mut holders = lock(&self.locks.0);
        let holder = holders.get(&self.identity);
        if holder.is_some_and(|holder| holder.session == self.by) {
            holders.remove(&self.identity);
        }
    }
}

#[cfg(test)]
mod tests {
    use reweave_common::ids::NodeId;

    use super::*;

    const FIRST_ADDRESS: &str = "10.0.0.1:4000";
    const SECOND_ADDRESS: &str = "10.0.0.1:4001";
    const OTHER_HOST_ADDRESS: &str = "10.0.0.2:4000";

    struct Scene {
        locks: IdentityLocks<NodeId>,
        last: u64,
    }

    impl Scene {
        fn new() -> Self {
            let locks = IdentityLocks::default();
            Self { locks, last: 0 }
        }

        fn take(&mut self, address: &str, admission: u64) -> Result<IdentityLock<NodeId>, String> {
            self.last += 1;
            let (node, by) = (NodeId::from_index(0), SessionId(self.last));
            let address = address.parse().unwrap();
            let taken = self.locks.take(node, by, address, Admission(admission));
            taken.map_err(|other| other.to_string())
        }
    }

    #[test]
    fn identity_on_other_machine_waits() {
        let mut scene = Scene::new();
        let first = scene.take(FIRST_ADDRESS, 7).unwrap();
        assert_eq!(
            scene.take(OTHER_HOST_ADDRESS, 7).unwrap_err(),
            FIRST_ADDRESS
        );
        drop(first);
        let second = scene.take(OTHER_HOST_ADDRESS, 7).unwrap();
        assert_eq!(
            scene.take(FIRST_ADDRESS, 7).unwrap_err(),
            OTHER_HOST_ADDRESS
        );
        drop(second);
    }

    #[test]
    fn restarted_agent_replaces_its_session() {
        let mut scene = Scene::new();
        let old = scene.take(FIRST_ADDRESS, 7).unwrap();
        let new = scene.take(SECOND_ADDRESS, 7).unwrap();
        // The place is the new one's, whenever the old one ends.
        drop(old);
        assert_eq!(
            scene.take(OTHER_HOST_ADDRESS, 7).unwrap_err(),
            SECOND_ADDRESS
        );
        drop(new);
    }

    #[test]
    fn newer_token_replaces_older_session() {
        let mut scene = Scene::new();
        let _old = scene.take(FIRST_ADDRESS, 7).unwrap();
        let _new = scene.take(OTHER_HOST_ADDRESS, 9).unwrap();
        assert_eq!(
            scene.take(FIRST_ADDRESS, 7).unwrap_err(),
            OTHER_HOST_ADDRESS
        );
    }
}
