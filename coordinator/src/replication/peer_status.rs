//! What other coordinators report of themselves, for the status.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use reweave_common::lock::lock;
use reweave_link::Session;
use reweave_proto::hello::Version;
use reweave_replica::MemberId;

/// Leader and followers hear of each other many times a second.
pub(crate) const SILENCE_TIMEOUT: Duration = Duration::from_secs(1);

/// Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct PeerStatus(Arc<Mutex<BTreeMap<MemberId, LastHeard>>>);

#[derive(Debug, Clone)]
pub(crate) struct LastHeard {
    heard: Instant,
    pub(crate) term: u64,
    pub(crate) build: String,
    /// The version that the peer speaks with this coordinator: the lower one of both.
    pub(crate) version: Version,
    pub(crate) good_until: SystemTime,
    /// The difference by which its clock is ahead of ours.
    pub(crate) skew_us: i64,
    pub(crate) disk_is_full: bool,
    /// The end of validity of its signer, if it has one.
    pub(crate) signs_until: Option<SystemTime>,
}

/// A coordinator's periodic report about itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Condition {
    pub(crate) skew_us: i64,
    pub(crate) disk_is_full: bool,
    pub(crate) signs_until: Option<SystemTime>,
}

impl LastHeard {
    pub(crate) fn silent_for(&self) -> Duration {
        self.heard.elapsed()
    }
}

impl PeerStatus {
    /// It has said something, in this term.
    pub(crate) fn hear(&self, id: MemberId, term: u64, session: &Session, it: Condition) {
        let mut all = lock(&self.0);
        let one = all.entry(id).or_insert_with(|| LastHeard {
            heard: Instant::now(),
            term,
            build: String::new(),
            version: session.version(),
            good_until: session.good_until(),
            skew_us: it.skew_us,
            disk_is_full: it.disk_is_full,
            signs_until: it.signs_until,
        });
        (one.heard, one.term) = (Instant::now(), term);
        (one.skew_us, one.disk_is_full) = (it.skew_us, it.disk_is_full);
        one.signs_until = it.signs_until;
        one.good_until = session.good_until();
        one.version = session.version();
        if one.build != session.build() {
            session.build().clone_into(&mut one.build);
        }
    }

    /// Those who were without room for decisions when they were last heard.
    pub(crate) fn full(&self) -> BTreeSet<MemberId> {
        let all = lock(&self.0);
        let full = all.iter().filter(|(_, one)| one.disk_is_full);
        full.map(|(id, _)| *id).collect()
    }

    /// The minor version that it speaks with this one, if it was heard just now: it may come back with another.
    pub(crate) fn minor(&self, id: MemberId) -> Option<u16> {
        let all = lock(&self.0);
        let one = all.get(&id)?;
        (one.silent_for() <= SILENCE_TIMEOUT).then_some(one.version.minor)
    }

    pub(crate) fn of(&self, id: MemberId) -> Option<LastHeard> {
        lock(&self.0).get(&id).cloned()
    }
}
