//! The deny lists for all members with an uplink: encoded once for all. Of revoked members, those that have the rest get the
//! difference; removed coordinators are few.

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
const MAX_RETAINED_NOTICES: usize = 16;

/// One notice, in the messages of each kind of member.
#[derive(Debug, Clone)]
pub(super) struct Words {
    pub(super) agents: EncodedMessage,
    pub(super) drivers: EncodedMessage,
}

/// How often each list had changed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Edition {
    revoked: u64,
    removed: u64,
}

/// The lists after one of their changes.
#[derive(Debug)]
pub(crate) struct Notice {
    lists: DenyLists,
    edition: Edition,
    /// All revoked members.
    whole: Words,
    /// What was new in each of the last editions of these.
    added: VecDeque<Words>,
    /// All removed coordinators, once the log has a time. A member that was away may still refuse one that was added again.
    removed: Option<Words>,
}

impl Words {
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

    fn removed(removed: RemovedCoordinators) -> Result<Self, LinkError> {
        let drivers = EncodedMessage::new(&DriverOrder::Removed(removed.clone()))?;
        let agents = EncodedMessage::new(&CoordinatorMessage::Removed(removed))?;
        Ok(Self { agents, drivers })
    }
}

impl Notice {
    pub(crate) fn first(lists: DenyLists) -> Result<Self, LinkError> {
        let removed = Some(lists.removed_coordinators());
        let removed = removed.filter(|it| it.as_of > Admission::default());
        Ok(Self {
            whole: Words::whole(&lists.revoked)?,
            removed: removed.map(Words::removed).transpose()?,
            lists,
            edition: Edition::default(),
            added: VecDeque::new(),
        })
    }

    fn followed_by(&self, lists: DenyLists) -> Result<Self, LinkError> {
        let (mut edition, mut added) = (self.edition, self.added.clone());
        let (mut whole, mut removed) = (self.whole.clone(), self.removed.clone());
        if lists.revoked != self.lists.revoked {
            edition.revoked += 1;
            whole = Words::whole(&lists.revoked)?;
            match lists.revoked.beyond(&self.lists.revoked) {
                Some(more) => added.push_back(Words::more(more)?),
                None => added.clear(),
            }
            if added.len() > MAX_RETAINED_NOTICES {
                added.pop_front();
            }
        }
        if lists.removed != self.lists.removed {
            edition.removed += 1;
            removed = Some(Words::removed(lists.removed_coordinators())?);
        }
        Ok(Self {
            lists,
            edition,
            whole,
            added,
            removed,
        })
    }

    pub(super) fn edition(&self) -> Edition {
        self.edition
    }

    /// For operators, who ask for them.
    pub(super) fn of_coordinators(&self) -> DeniedCoordinators {
        self.lists.of_coordinators()
    }

    /// For a member that waits for a leader.
    pub(super) fn removed(&self) -> Option<&Words> {
        self.removed.as_ref()
    }

    /// What is news to a member that has these editions, or none.
    pub(super) fn news(
        &self,
        told: Option<Edition>,
        knows: impl Fn(&Words) -> bool,
    ) -> Vec<&Words> {
        let mut news = self.news_of_revoked(told, &knows);
        let is_news = told.is_none_or(|told| told.removed != self.edition.removed);
        let removed = self.removed.iter().filter(|words| is_news && knows(words));
        news.extend(removed);
        news
    }

    /// All of it where the member does not know how less is said.
    fn news_of_revoked(
        &self,
        told: Option<Edition>,
        knows: impl Fn(&Words) -> bool,
    ) -> Vec<&Words> {
        let missed = match told {
            Some(told) => {
                let missed = self.edition.revoked.abs_diff(told.revoked);
                usize::try_from(missed).unwrap_or(usize::MAX)
            }
            None if self.lists.revoked.is_empty() => return vec![],
            None => usize::MAX,
        };
        let Some(first) = self.added.len().checked_sub(missed) else {
            return vec![&self.whole];
        };
        let news: Vec<_> = self.added.range(first..).collect();
        if news.iter().all(|words| knows(words)) {
            news
        } else {
            vec![&self.whole]
        }
    }
}

/// Words each change of the lists, and keeps to those before where that cannot be done.
pub(crate) fn publish(lists: DenyLists, notices: &watch::Sender<Arc<Notice>>) {
    let next = notices.borrow().followed_by(lists);
    match next {
        Ok(notice) => drop(notices.send_replace(Arc::new(notice))),
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
    fn notice(counts: &[u64]) -> Notice {
        let first = Notice::first(revoking(counts[0])).unwrap();
        let later = counts[1..].iter();
        later.fold(first, |notice, &count| {
            notice.followed_by(revoking(count)).unwrap()
        })
    }

    fn bytes(notice: &Notice, told: Option<u64>, knows_more: bool) -> Vec<usize> {
        let told = told.map(|revoked| Edition {
            revoked,
            removed: 0,
        });
        let news = notice.news(told, |_| knows_more).into_iter();
        news.map(|words| words.agents.bytes().max(words.drivers.bytes()))
            .collect()
    }

    #[test]
    fn deny_list_updates_are_incremental() {
        let notice = notice(&[10_000, 10_001, 10_002]);
        let whole = notice.whole.agents.bytes();
        assert!(whole > 100_000, "{whole}");
        for (error_chain, count) in [(2, 0), (1, 1), (0, 2)] {
            let news = bytes(&notice, Some(error_chain), true);
            assert_eq!(news.len(), count);
            assert!(news.iter().all(|bytes| *bytes < 200), "{news:?}");
        }
        assert_eq!(bytes(&notice, None, true), [whole]);
        assert_eq!(
            bytes(&notice, Some(1), false),
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
        let all = |notice: &Notice| {
            let removed = notice.removed.as_ref().unwrap();
            [&notice.whole, removed].map(|words| words.agents.bytes())
        };
        let first = Notice::first(removing(2)).unwrap();
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

    #[test]
    fn outdated_deny_list_is_replaced() {
        let counts: Vec<_> = (1..=MAX_RETAINED_NOTICES as u64 + 2).collect();
        let long = notice(&counts);
        let whole = [long.whole.agents.bytes()];
        assert_eq!(bytes(&long, Some(1), true).len(), MAX_RETAINED_NOTICES);
        assert_eq!(bytes(&long, Some(0), true), whole);
        let shrunk = notice(&[3, 4, 2]);
        assert_eq!(bytes(&shrunk, Some(1), true), [shrunk.whole.agents.bytes()]);
        assert!(
            bytes(&notice(&[0]), None, true).is_empty(),
            "no member is revoked"
        );
    }
}
