//! The deny lists for all members with an uplink, encoded once for all of them. A member that has an earlier list of revoked
//! members gets the difference; the list of removed coordinators is short and is always sent whole.

use std::collections::VecDeque;
use std::sync::Arc;

use reweave_common::error::error_chain;
use reweave_common::member::{
    Admission, DeniedCoordinators, DenyList, DenyLists, RemovedCoordinators,
};
use reweave_link::{EncodedMessage, LinkError};
use reweave_proto::message::{CoordinatorMessage, DriverOrder};
use tokio::sync::watch;

/// A member that has missed more changes gets the whole list.
const MAX_RETAINED_CHANGES: usize = 16;

/// A list or a difference, encoded for each kind of member.
#[derive(Debug, Clone)]
pub(super) struct EncodedLists {
    pub(super) agents: EncodedMessage,
    pub(super) drivers: EncodedMessage,
}

/// The version of each list: how often it has changed, or got another date.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ListVersions {
    revoked: u64,
    removed: u64,
}

/// The lists after a change, and the messages that bring members up to date.
#[derive(Debug)]
pub(crate) struct DenyListUpdates {
    lists: DenyLists,
    versions: ListVersions,
    /// The list of all revoked members.
    whole: EncodedLists,
    /// The revocations of each of the last versions, oldest first.
    added: VecDeque<EncodedLists>,
    /// The list of all removed coordinators, once the log has a date. A member that was away may still refuse one that was
    /// added again, or one of an earlier log.
    removed: Option<EncodedLists>,
}

impl EncodedLists {
    fn whole(list: &DenyList) -> Result<Self, LinkError> {
        Ok(Self {
            agents: EncodedMessage::new(&CoordinatorMessage::Denied(list.clone()))?,
            drivers: EncodedMessage::new(&DriverOrder::Denied(list.clone()))?,
        })
    }

    fn more(list: DenyList) -> Result<Self, LinkError> {
        let drivers = EncodedMessage::new(&DriverOrder::DeniedMore(list.clone()))?;
        let agents = EncodedMessage::new(&CoordinatorMessage::DeniedMore(list))?;
        Ok(Self { agents, drivers })
    }

    /// None of a log without a date: no member could put the list in order.
    fn dated(lists: &DenyLists) -> Result<Option<Self>, LinkError> {
        let removed = Some(lists.removed_coordinators());
        let removed = removed.filter(|it| it.as_of > Admission::default());
        removed.map(Self::removed).transpose()
    }

    fn removed(removed: RemovedCoordinators) -> Result<Self, LinkError> {
        let drivers = EncodedMessage::new(&DriverOrder::Removed(removed.clone()))?;
        let agents = EncodedMessage::new(&CoordinatorMessage::Removed(removed))?;
        Ok(Self { agents, drivers })
    }
}

impl DenyListUpdates {
    pub(crate) fn first(lists: DenyLists) -> Result<Self, LinkError> {
        Ok(Self {
            whole: EncodedLists::whole(&lists.revoked)?,
            removed: EncodedLists::dated(&lists)?,
            lists,
            versions: ListVersions::default(),
            added: VecDeque::new(),
        })
    }

    fn followed_by(&self, lists: DenyLists) -> Result<Self, LinkError> {
        let (mut versions, mut added) = (self.versions, self.added.clone());
        let (mut whole, mut removed) = (self.whole.clone(), self.removed.clone());
        if lists.revoked != self.lists.revoked {
            versions.revoked += 1;
            whole = EncodedLists::whole(&lists.revoked)?;
            match lists.revoked.beyond(&self.lists.revoked) {
                Some(more) => added.push_back(EncodedLists::more(more)?),
                None => added.clear(),
            }
            if added.len() > MAX_RETAINED_CHANGES {
                added.pop_front();
            }
        }
        if (lists.as_of, &lists.removed) != (self.lists.as_of, &self.lists.removed) {
            versions.removed += 1;
            removed = EncodedLists::dated(&lists)?;
        }
        Ok(Self {
            lists,
            versions,
            whole,
            added,
            removed,
        })
    }

    pub(super) fn versions(&self) -> ListVersions {
        self.versions
    }

    /// Answers operators that request the lists.
    pub(super) fn of_coordinators(&self) -> DeniedCoordinators {
        self.lists.of_coordinators()
    }

    /// The removed coordinators, for a member that waits for a leader.
    pub(super) fn removed(&self) -> Option<&EncodedLists> {
        self.removed.as_ref()
    }

    /// The messages for a member that has these versions, or none.
    pub(super) fn updates_since(
        &self,
        known: Option<ListVersions>,
        knows: impl Fn(&EncodedLists) -> bool,
    ) -> Vec<&EncodedLists> {
        let mut unsent = self.revocations_since(known, &knows);
        let is_new = known.is_none_or(|known| known.removed != self.versions.removed);
        let removed = self.removed.iter().filter(|words| is_new && knows(words));
        unsent.extend(removed);
        unsent
    }

    /// The whole list, unless the member has all but the last changes and knows the message for a difference.
    fn revocations_since(
        &self,
        known: Option<ListVersions>,
        knows: impl Fn(&EncodedLists) -> bool,
    ) -> Vec<&EncodedLists> {
        let missed = match known {
            Some(known) => {
                let missed = self.versions.revoked.abs_diff(known.revoked);
                usize::try_from(missed).unwrap_or(usize::MAX)
            }
            None if self.lists.revoked.is_empty() => return vec![],
            None => usize::MAX,
        };
        let Some(first) = self.added.len().checked_sub(missed) else {
            return vec![&self.whole];
        };
        let unsent: Vec<_> = self.added.range(first..).collect();
        if unsent.iter().all(|words| knows(words)) {
            unsent
        } else {
            vec![&self.whole]
        }
    }
}

/// Encodes a change of the lists. If that fails, the earlier messages stay in use.
pub(crate) fn publish(lists: DenyLists, published: &watch::Sender<Arc<DenyListUpdates>>) {
    let next = published.borrow().followed_by(lists);
    match next {
        Ok(updates) => drop(published.send_replace(Arc::new(updates))),
        Err(error) => tracing::error!(
            "the list of revoked members was not sent: {}",
            error_chain(&error)
        ),
    }
}

#[cfg(test)]
mod tests {
    use reweave_common::member::{Admission, Member, Role};

    use super::*;

    fn denying(count: u64) -> DenyList {
        let mut list = DenyList::default();
        for nth in 0..count {
            let member = Member::new(Role::Agent, &format!("host-{nth}"));
            list.deny(member, Admission(1_700_000_000_000_000 + nth));
        }
        list
    }

    fn revoking(count: u64) -> DenyLists {
        DenyLists {
            revoked: denying(count),
            ..DenyLists::default()
        }
    }

    /// After these lists, one after the other.
    fn updates_of(counts: &[u64]) -> DenyListUpdates {
        let first = DenyListUpdates::first(revoking(counts[0])).unwrap();
        let later = counts[1..].iter();
        later.fold(first, |updates, &count| {
            updates.followed_by(revoking(count)).unwrap()
        })
    }

    fn bytes(updates: &DenyListUpdates, known: Option<u64>, knows_more: bool) -> Vec<usize> {
        let known = known.map(|revoked| ListVersions {
            revoked,
            removed: 0,
        });
        let unsent = updates.updates_since(known, |_| knows_more).into_iter();
        unsent
            .map(|words| words.agents.bytes().max(words.drivers.bytes()))
            .collect()
    }

    #[test]
    fn deny_list_updates_are_incremental() {
        let updates = updates_of(&[10_000, 10_001, 10_002]);
        let whole = updates.whole.agents.bytes();
        assert!(whole > 100_000, "{whole}");
        for (version, count) in [(2, 0), (1, 1), (0, 2)] {
            let unsent = bytes(&updates, Some(version), true);
            assert_eq!(unsent.len(), count);
            assert!(unsent.iter().all(|bytes| *bytes < 200), "{unsent:?}");
        }
        assert_eq!(bytes(&updates, None, true), [whole]);
        assert_eq!(
            bytes(&updates, Some(1), false),
            [whole],
            "of an earlier version"
        );
    }

    /// The list of revoked members stays as it is meanwhile.
    #[test]
    fn removed_coordinators_are_sent_whole() {
        let removing = |count| DenyLists {
            as_of: Admission(9),
            revoked: denying(3),
            removed: denying(count),
        };
        let all = |updates: &DenyListUpdates| {
            let removed = updates.removed.as_ref().unwrap();
            [&updates.whole, removed].map(|words| words.agents.bytes())
        };
        let first = DenyListUpdates::first(removing(2)).unwrap();
        assert_eq!(bytes(&first, None, true), all(&first));
        assert_eq!(
            bytes(&first, None, false),
            all(&first)[..1],
            "of an earlier version"
        );
        let added_again = first.followed_by(removing(0)).unwrap();
        assert_eq!(bytes(&added_again, Some(0), true), all(&added_again)[1..]);
        assert_eq!(
            bytes(&added_again, None, true),
            all(&added_again),
            "a member that was away may refuse them still"
        );
    }

    /// A member that has removals of an earlier log keeps them until there is a list of a later date.
    #[test]
    fn later_date_is_sent_alone() {
        let dated = |as_of| DenyLists {
            as_of: Admission(as_of),
            ..DenyLists::default()
        };
        // Each date takes more bytes than the one before.
        let undated = DenyListUpdates::first(dated(0)).unwrap();
        assert!(bytes(&undated, None, true).is_empty());
        let first = undated.followed_by(dated(7)).unwrap();
        let later = first.followed_by(dated(1_700_000_000_000_000)).unwrap();
        for (updates, before) in [(&first, &undated), (&later, &first)] {
            let sent = updates.updates_since(Some(before.versions()), |_| true);
            let sent: Vec<_> = sent.iter().map(|words| words.agents.bytes()).collect();
            let removed = EncodedLists::dated(&updates.lists).unwrap().unwrap();
            assert_eq!(sent, [removed.agents.bytes()]);
        }
        let same = later.followed_by(dated(1_700_000_000_000_000)).unwrap();
        let unsent = same.updates_since(Some(later.versions()), |_| true);
        assert!(unsent.is_empty());
    }

    #[test]
    fn outdated_deny_list_is_replaced() {
        let counts: Vec<_> = (1..=MAX_RETAINED_CHANGES as u64 + 2).collect();
        let long = updates_of(&counts);
        let whole = [long.whole.agents.bytes()];
        assert_eq!(bytes(&long, Some(1), true).len(), MAX_RETAINED_CHANGES);
        assert_eq!(bytes(&long, Some(0), true), whole);
        let shrunk = updates_of(&[3, 4, 2]);
        assert_eq!(bytes(&shrunk, Some(1), true), [shrunk.whole.agents.bytes()]);
        assert!(
            bytes(&updates_of(&[0]), None, true).is_empty(),
            "no member is revoked"
        );
    }
}
