//! Which machine speaks for each node: where two hold one certificate, one of them at a time.
//!
//! The one that is here stays. Were the newer let in, the two would throw each other out for ever,
//! and neither would be believed for long. From the same address it is taken for the same machine,
//! whose agent was started again; and who was let in by a newer token is meant to take the place.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use reweave_common::ids::NodeId;
use reweave_common::lock::lock;
use reweave_common::member::Admission;

use crate::intake::{Origin, SessionId};

#[derive(Debug, Clone, Default)]
pub(crate) struct Places(Arc<Mutex<BTreeMap<NodeId, Holder>>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Holder {
    session: SessionId,
    address: SocketAddr,
    admission: Admission,
}

/// Given back when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    of: Places,
    held: Origin,
}

impl Places {
    /// A place for this session, or the address of the other machine that has it.
    pub(super) fn take(
        &self,
        by: Origin,
        address: SocketAddr,
        admission: Admission,
    ) -> Result<Place, SocketAddr> {
        let mut holders = lock(&self.0);
        let other = holders
            .get(&by.node)
            .filter(|holder| holder.address.ip() != address.ip() && holder.admission >= admission);
        if let Some(other) = other {
            return Err(other.address);
        }
        let holder = Holder {
            session: by.session,
            address,
            admission,
        };
        holders.insert(by.node, holder);
        let of = self.clone();
        Ok(Place { of, held: by })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Origin { node, session } = self.held;
        let mut holders = lock(&self.of.0);
        if holders
            .get(&node)
            .is_some_and(|holder| holder.session == session)
        {
            holders.remove(&node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "10.0.0.1:4000";
    const AGAIN: &str = "10.0.0.1:4001";
    const ELSEWHERE: &str = "10.0.0.2:4000";

    struct Scene {
        places: Places,
        last: u64,
    }

    impl Scene {
        fn new() -> Self {
            let places = Places::default();
            Self { places, last: 0 }
        }

        fn take(&mut self, address: &str, admission: u64) -> Result<Place, String> {
            self.last += 1;
            let by = Origin {
                node: NodeId::from_index(0),
                session: SessionId(self.last),
            };
            let taken = self
                .places
                .take(by, address.parse().unwrap(), Admission(admission));
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
