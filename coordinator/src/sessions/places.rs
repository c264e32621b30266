//! Which machine speaks for each node, and for each optical switch: where two hold one certificate,
//! one of them at a time.
//!
//! The one that is here stays. Were the newer let in, the two would throw each other out for ever,
//! and neither would be believed for long. From the same address it is taken for the same machine,
//! whose agent was started again; and who was let in by a newer token is meant to take the place.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use reweave_common::lock::lock;
use reweave_common::member::Admission;

use crate::intake::SessionId;

#[derive(Debug, Clone)]
pub(crate) struct Places<K: Ord>(Arc<Mutex<BTreeMap<K, Holder>>>);

impl<K: Ord> Default for Places<K> {
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

/// Given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place<K: Ord> {
    of: Places<K>,
    held: K,
    by: SessionId,
}

impl<K: Ord + Copy> Places<K> {
    /// A place for this session, or the address of the other machine that has it.
    pub(super) fn take(
        &self,
        place: K,
        by: SessionId,
        address: SocketAddr,
        admission: Admission,
    ) -> Result<Place<K>, SocketAddr> {
        let mut holders = lock(&self.0);
        let other = holders
            .get(&place)
            .filter(|holder| holder.address.ip() != address.ip() && holder.admission >= admission);
        if let Some(other) = other {
            return Err(other.address);
        }
        let holder = Holder {
            session: by,
            address,
            admission,
        };
        holders.insert(place, holder);
        let of = Self(Arc::clone(&self.0));
        let held = place;
        Ok(Place { of, held, by })
    }
}

impl<K: Ord + Copy> Place<K> {
    pub(super) fn of_whom(&self) -> K {
        self.held
    }
}

impl<K: Ord> Drop for Place<K> {
    fn drop(&mut self) {
        let mut holders = lock(&self.of.0);
        let holder = holders.get(&self.held);
        if holder.is_some_and(|holder| holder.session == self.by) {
            holders.remove(&self.held);
        }
    }
}

#[cfg(test)]
mod tests {
    use reweave_common::ids::NodeId;

    use super::*;

    const HERE: &str = "10.0.0.1:4000";
    const AGAIN: &str = "10.0.0.1:4001";
    const ELSEWHERE: &str = "10.0.0.2:4000";

    struct Scene {
        places: Places<NodeId>,
        last: u64,
    }

    impl Scene {
        fn new() -> Self {
            let places = Places::default();
            Self { places, last: 0 }
        }

        fn take(&mut self, address: &str, admission: u64) -> Result<Place<NodeId>, String> {
            self.last += 1;
            let (node, by) = (NodeId::from_index(0), SessionId(self.last));
            let address = address.parse().unwrap();
            let taken = self.places.take(node, by, address, Admission(admission));
            taken.map_err(|other| other.to_string())
        }
    }

    #[test]
    fn another_machine_waits_until_the_first_is_gone() {
        let mut scene = Scene::new();
        let first = scene.take(HERE, 7).unwrap();
        assert_eq!(scene.take(ELSEWHERE, 7).unwrap_err(), HERE);
        drop(first);
        let second = scene.take(ELSEWHERE, 7).unwrap();
        assert_eq!(scene.take(HERE, 7).unwrap_err(), ELSEWHERE);
        drop(second);
    }

    #[test]
    fn an_agent_that_was_started_again_has_its_place_at_once() {
        let mut scene = Scene::new();
        let old = scene.take(HERE, 7).unwrap();
        let new = scene.take(AGAIN, 7).unwrap();
        // The place is the new one's, whenever the old one ends.
        drop(old);
        assert_eq!(scene.take(ELSEWHERE, 7).unwrap_err(), AGAIN);
        drop(new);
    }

    #[test]
    fn a_newer_token_takes_the_place_and_an_older_one_does_not() {
        let mut scene = Scene::new();
        let _old = scene.take(HERE, 7).unwrap();
        let _new = scene.take(ELSEWHERE, 9).unwrap();
        assert_eq!(scene.take(HERE, 7).unwrap_err(), ELSEWHERE);
    }
}
