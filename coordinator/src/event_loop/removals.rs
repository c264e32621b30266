//! Since when each removed coordinator is one, as far as this process has seen.
//!
//! A revocation voids all that the signer of a coordinator has made. Of one that led, these are the certificates of all agents
//! and operators: they would need new tokens. So a removed coordinator is revoked once the last of these has expired or was
//! renewed by another signer. An operator who does not trust the machine revokes it at once.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::time::{Duration, Instant};

use reweave_common::member::{DenyList, Member, Role};
use reweave_common::moment::Moment;
use reweave_link::pki::MAX_MEMBER_VALIDITY;

/// Clocks may be an hour apart.
const REVOCATION_DELAY: Duration = MAX_MEMBER_VALIDITY.saturating_add(Duration::from_hours(2));

#[derive(Debug, Default)]
pub(super) struct Removals {
    /// None of those that were revoked already when this began.
    since: BTreeMap<String, Option<Removal>>,
    has_begun: bool,
}

#[derive(Debug)]
struct Removal {
    seen: Instant,
    at: Moment,
}

impl Removals {
    /// A coordinator that is added again is none of them any longer.
    pub(super) fn follow(
        &mut self,
        removed: &BTreeSet<String>,
        denied: &DenyList,
        now: Instant,
        at: Moment,
    ) {
        let has_begun = mem::replace(&mut self.has_begun, true);
        self.since.retain(|name, _| removed.contains(name));
        for name in removed {
            if !self.since.contains_key(name) {
                let is_revoked = denied.names(&Member::new(Role::Coordinator, name));
                let is_new = has_begun || !is_revoked;
                let removal = is_new.then_some(Removal { seen: now, at });
                self.since.insert(name.clone(), removal);
            }
        }
    }

    /// Those that are to be revoked by now, and when each was removed.
    pub(super) fn lapsed(&self, now: Instant) -> BTreeMap<String, Moment> {
        let lapsed = self.since.iter().filter_map(|(name, removal)| {
            let Removal { seen, at } = removal.as_ref()?;
            let is_over = now.saturating_duration_since(*seen) >= REVOCATION_DELAY;
            is_over.then(|| (name.clone(), *at))
        });
        lapsed.collect()
    }
}

#[cfg(test)]
mod tests {
    use reweave_common::member::Admission;

    use super::*;

    fn names(of: &[&str]) -> BTreeSet<String> {
        of.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn removal_lapses_with_last_signature() {
        let (began, at) = (Instant::now(), Moment::from_micros(7));
        let mut removals = Removals::default();
        let empty = DenyList::default();
        removals.follow(&names(&["c3"]), &empty, began, at);
        let later = began + Duration::from_hours(1);
        let later_at = Moment::from_micros(8);
        removals.follow(&names(&["c3", "c4"]), &empty, later, later_at);
        let day = began + MAX_MEMBER_VALIDITY;
        assert_eq!(removals.lapsed(day), BTreeMap::new(), "agents renew still");
        let lapsed = removals.lapsed(began + REVOCATION_DELAY);
        assert_eq!(lapsed, BTreeMap::from([("c3".to_owned(), at)]));
        removals.follow(&names(&["c4"]), &empty, later, later_at);
        let lapsed = removals.lapsed(later + REVOCATION_DELAY);
        assert_eq!(lapsed, BTreeMap::from([("c4".to_owned(), later_at)]));
    }

    /// A token may have admitted it since.
    #[test]
    fn restart_repeats_no_revocation() {
        let mut denied = DenyList::default();
        denied.deny(Member::new(Role::Coordinator, "c3"), Admission(5));
        let (began, at) = (Instant::now(), Moment::from_micros(7));
        let mut removals = Removals::default();
        removals.follow(&names(&["c3"]), &denied, began, at);
        let over = began + REVOCATION_DELAY;
        assert_eq!(removals.lapsed(over), BTreeMap::new());
        // Added again, and removed again.
        removals.follow(&names(&[]), &denied, began, at);
        removals.follow(&names(&["c3"]), &denied, began, at);
        assert_eq!(removals.lapsed(over).len(), 1);
    }
}
