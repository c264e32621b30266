//! What is known of the other coordinators from what they say: for people who ask how it goes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use reweave_common::lock::lock;
use reweave_link::Session;
use reweave_replica::MemberId;

/// Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Acquaintances(Arc<Mutex<BTreeMap<MemberId, Acquaintance>>>);

#[derive(Debug, Clone)]
pub(crate) struct Acquaintance {
    heard: Instant,
    pub(crate) term: u64,
    pub(crate) build: String,
    pub(crate) protocol: String,
    pub(crate) good_until: SystemTime,
    /// By how much its clock is ahead of ours.
    pub(crate) skew_us: i64,
}

impl Acquaintance {
    pub(crate) fn silent_for(&self) -> Duration {
        self.heard.elapsed()
    }
}

impl Acquaintances {
    /// It has said something, in this term.
    pub(crate) fn hear(&self, id: MemberId, term: u64, session: &Session, skew_us: i64) {
        let mut all = lock(&self.0);
        let one = all.entry(id).or_insert_with(|| Acquaintance {
            heard: Instant::now(),
            term,
            build: String::new(),
            protocol: String::new(),
            good_until: session.good_until(),
            skew_us,
        });
        (one.heard, one.term, one.skew_us) = (Instant::now(), term, skew_us);
        one.good_until = session.good_until();
        if one.build != session.build() {
            session.build().clone_into(&mut one.build);
            one.protocol = session.version().to_string();
        }
    }

    pub(crate) fn of(&self, id: MemberId) -> Option<Acquaintance> {
        lock(&self.0).get(&id).cloned()
    }
}
