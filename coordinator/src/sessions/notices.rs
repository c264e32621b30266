//! The deny list for all members with an uplink: encoded once for all, and as a difference for members that have the
//! rest.

use std::collections::VecDeque;
use std::sync::Arc;

use reweave_common::error::error_chain;
use reweave_common::member::DenyList;
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

/// The list after one of its changes.
#[derive(Debug)]
pub(crate) struct Notice {
    list: DenyList,
    /// How often it had changed.
    edition: u64,
    whole: Words,
    /// What was new in each of the last editions.
    added: VecDeque<Words>,
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
}

impl Notice {
    pub(crate) fn first(list: DenyList) -> Result<Self, LinkError> {
        Ok(Self {
            whole: Words::whole(&list)?,
            list,
            edition: 0,
            added: VecDeque::new(),
        })
    }

    fn followed_by(&self, list: DenyList) -> Result<Self, LinkError> {
        let mut added = self.added.clone();
        match list.beyond(&self.list) {
            Some(more) => added.push_back(Words::more(more)?),
            None => added.clear(),
        }
        if added.len() > MAX_RETAINED_NOTICES {
            added.pop_front();
        }
        Ok(Self {
            whole: Words::whole(&list)?,
            list,
            edition: self.edition + 1,
            added,
        })
    }

    pub(super) fn edition(&self) -> u64 {
        self.edition
    }

    /// What is news to a member that has this edition, or none; all of it where it does not know how less is said.
    pub(super) fn news(&self, told: Option<u64>, knows: impl Fn(&Words) -> bool) -> Vec<&Words> {
        let missed = match told {
            Some(told) => usize::try_from(self.edition.abs_diff(told)).unwrap_or(usize::MAX),
            None if self.list.is_empty() => return vec![],
            None => usize::MAX,
        };
        let Some(first) = self.added.len().checked_sub(missed) else {
            return vec![&self.whole];
        };
        let news: Vec<_> = self.added.range(first..).collect();
        match news.iter().all(|words| knows(words)) {
            true => news,
            false => vec![&self.whole],
        }
    }
}

/// Words each change of the list, and keeps to the one before where that cannot be done.
pub(crate) fn publish(list: &DenyList, notices: &watch::Sender<Arc<Notice>>) {
    let next = notices.borrow().followed_by(list.clone());
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

    /// After these lists, one after the other.
    fn notice(counts: &[u64]) -> Notice {
        let first = Notice::first(denying(counts[0])).unwrap();
        let later = counts[1..].iter();
        later.fold(first, |notice, &count| {
            notice.followed_by(denying(count)).unwrap()
        })
    }

    fn bytes(notice: &Notice, told: Option<u64>, knows_more: bool) -> Vec<usize> {
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
