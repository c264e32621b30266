//! Invited and revoked members.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use reweave_common::member::{Admission, DenyList, DenyLists, Digest, Member, Role};
use reweave_common::moment::Moment;
use reweave_common::operator::Refused;
use serde::{Deserialize, Serialize};

use crate::log::command::Author;

/// The limit of unused tokens: enough for all nodes of a cluster to join together.
pub(crate) const MAX_TOKENS: usize = 8192;
/// The limit of the deny list, which every member gets as a whole.
pub(crate) const MAX_REVOKED_MEMBERS: usize = 1 << 16;
/// Used secrets are remembered for this long, and at most this many of them: a late request to create the same token,
/// repeated because no reply came, would otherwise make it valid again.
const SPENT_TOKEN_TTL: Duration = Duration::from_hours(24);
const MAX_SPENT_TOKENS: usize = 1 << 16;
/// Each admission has a date. Thousands of members that join together would each get the lists again with each of them.
const REDATING_INTERVAL: Duration = Duration::from_mins(1);
/// The limit of web and script sessions.
pub(crate) const MAX_VISITORS: usize = 1024;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// Unexpired tokens, used or not.
    tokens: BTreeMap<Digest, Invitation>,
    /// Used tokens, and until when they are remembered.
    spent: BTreeMap<Digest, Moment>,
    denied: DenyList,
    /// Unexpired web and script tokens.
    visitors: BTreeMap<Digest, Visitor>,
    /// The latest admission, or the latest one up to which a member was revoked or removed.
    newest: Admission,
    /// Removed coordinators. The admission up to which each is removed is also the time of its removal.
    removed: DenyList,
}

/// The member in whose name a token makes requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Visitor {
    member: Member,
    expires: Moment,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invitation {
    pub member: Member,
    pub by: Author,
    pub expires: Moment,
    used: Option<Use>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Use {
    key: Digest,
    from: String,
    admission: Admission,
}

/// A token that admits a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pass {
    pub member: Member,
    pub admission: Admission,
}

/// Why a token does not admit a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoEntry {
    /// The token is unknown or expired long ago.
    UnknownToken,
    Expired {
        member: Member,
    },
    Used {
        member: Member,
        from: String,
    },
    /// The disk is full, so nothing is recorded; the token stays valid.
    DiskFull,
}

impl fmt::Display for NoEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownToken => f.write_str("its token is unknown or expired long ago"),
            Self::Expired { member } => write!(f, "its token for {member} has expired"),
            Self::Used { member, from } => {
                write!(
                    f,
                    "its token for {member} has been used already, from {from}"
                )
            }
            Self::DiskFull => Refused::DiskFull.fmt(f),
        }
    }
}

/// The state of a token at a moment.
pub(crate) enum AdmissionStatus {
    /// The token has not been used yet.
    Open,
    /// The bearer of this key has used the token, and may get the same reply again.
    Admitted(Pass),
    Closed(NoEntry),
}

impl Membership {
    pub fn denied(&self) -> &DenyList {
        &self.denied
    }

    pub fn removed(&self) -> &DenyList {
        &self.removed
    }

    /// The date of the deny lists.
    pub fn as_of(&self) -> Admission {
        self.newest
    }

    /// Whether members need the lists again. They need a later date too: a member that has the lists of an earlier log keeps
    /// its removals until there is one.
    pub fn outdates(&self, published: &DenyLists) -> bool {
        let apart_us = self.newest.0.abs_diff(published.as_of.0);
        let is_redated = u128::from(apart_us) >= REDATING_INTERVAL.as_micros();
        is_redated || published.revoked != self.denied || published.removed != self.removed
    }

    /// The lists by which members refuse certificates.
    pub fn deny_lists(&self) -> DenyLists {
        DenyLists {
            as_of: self.newest,
            revoked: self.denied.clone(),
            removed: self.removed.clone(),
        }
    }

    /// Whether exactly these coordinators are removed.
    pub(crate) fn has_removed(&self, coordinators: &BTreeSet<String>) -> bool {
        let held = self.removed.iter().map(|(member, _)| &member.name);
        held.eq(coordinators)
    }

    /// Whether no admission, revocation or removal has been decided yet.
    pub(crate) fn is_undated(&self) -> bool {
        self.newest == Admission::default()
    }

    pub(crate) fn has_room_for(&self, revoked: &Member) -> bool {
        self.denied.len() < MAX_REVOKED_MEMBERS || self.denied.names(revoked)
    }

    /// Tokens that may still be used.
    pub fn open(&self, now: Moment) -> impl Iterator<Item = &Invitation> {
        let open = move |it: &&Invitation| it.used.is_none() && now < it.expires;
        self.tokens.values().filter(open)
    }

    /// Whether the limit of tokens is reached. Used tokens count until they expire.
    pub(crate) fn is_full(&self, now: Moment) -> bool {
        let kept = self.tokens.values().filter(|it| now < it.expires);
        kept.count() >= MAX_TOKENS
    }

    pub(crate) fn standing(&self, token: Digest, key: Digest, now: Moment) -> AdmissionStatus {
        let Some(held) = self.tokens.get(&token) else {
            return AdmissionStatus::Closed(NoEntry::UnknownToken);
        };
        let member = held.member.clone();
        match &held.used {
            _ if now >= held.expires => AdmissionStatus::Closed(NoEntry::Expired { member }),
            None => AdmissionStatus::Open,
            Some(used) if used.key == key => AdmissionStatus::Admitted(Pass {
                member,
                admission: used.admission,
            }),
            Some(used) => AdmissionStatus::Closed(NoEntry::Used {
                member,
                from: used.from.clone(),
            }),
        }
    }

    /// Creates a token, unless its secret was used before.
    pub(super) fn invite(&mut self, at: Moment, token: Digest, invitation: Invitation) {
        self.tokens.retain(|_, held| at < held.expires);
        if self.tokens.len() < MAX_TOKENS && !self.spent.contains_key(&token) {
            self.tokens.entry(token).or_insert(invitation);
        }
    }

    pub(super) fn admit(&mut self, at: Moment, token: Digest, key: Digest, from: String) {
        let admission = self.next_admission(at);
        let held = self.tokens.get_mut(&token);
        let open = held.filter(|held| held.used.is_none() && at < held.expires);
        if let Some(held) = open {
            held.used = Some(Use {
                key,
                from,
                admission,
            });
            self.remember(at, token);
        }
    }

    fn remember(&mut self, at: Moment, token: Digest) {
        self.spent.retain(|_, until| at < *until);
        if self.spent.len() >= MAX_SPENT_TOKENS {
            let oldest = self.spent.iter().min_by_key(|(_, until)| **until);
            let oldest = oldest.map(|(token, _)| *token);
            oldest.and_then(|it| self.spent.remove(&it));
        }
        self.spent.insert(token, at + SPENT_TOKEN_TTL);
    }

    /// The member in whose name this token may make requests.
    pub(crate) fn visitor(&self, token: Digest, now: Moment) -> Option<&Member> {
        let visitor = self.visitors.get(&token)?;
        (now < visitor.expires).then_some(&visitor.member)
    }

    pub(crate) fn is_full_of_visitors(&self, now: Moment) -> bool {
        let open = self.visitors.values().filter(|it| now < it.expires);
        open.count() >= MAX_VISITORS
    }

    /// The number of this member's valid tokens.
    pub(crate) fn visits_of(&self, member: &Member, now: Moment) -> usize {
        let open = self.visitors.values().filter(|it| now < it.expires);
        open.filter(|it| it.member == *member).count()
    }

    /// Creates a web or script token, unless its secret was used before.
    pub(super) fn let_visit(&mut self, at: Moment, token: Digest, member: Member, expires: Moment) {
        self.visitors.retain(|_, held| at < held.expires);
        if self.visitors.len() < MAX_VISITORS {
            let visitor = Visitor { member, expires };
            self.visitors.entry(token).or_insert(visitor);
        }
    }

    /// Revokes the member's admissions, its tokens, and unused tokens that it created, by which it could return.
    pub(super) fn revoke(&mut self, at: Moment, member: Member) {
        let up_to = self.next_admission(at);
        let maker = (member.role == Role::Operator).then(|| Author::Operator(member.name.clone()));
        let is_its = |held: &Invitation| held.used.is_none() && Some(&held.by) == maker.as_ref();
        self.tokens
            .retain(|_, held| held.member != member && !is_its(held));
        self.visitors.retain(|_, held| held.member != member);
        self.denied.deny(member, up_to);
    }

    /// Sets the removed coordinators. One that was added again is admitted as before, and so is one that a token has
    /// admitted since its removal.
    pub(super) fn handle_removed(&mut self, at: Moment, coordinators: &BTreeSet<String>) {
        let up_to = self.next_admission(at);
        self.removed
            .retain(|member| coordinators.contains(&member.name));
        for name in coordinators {
            let member = Member::new(Role::Coordinator, name);
            if !self.removed.names(&member) {
                self.removed.deny(member, up_to);
            }
        }
    }

    /// The next admission number, which grows even if the clock does not.
    fn next_admission(&mut self, at: Moment) -> Admission {
        let after = self.newest.0.saturating_add(1);
        self.newest = Admission(after.max(at.as_micros()));
        self.newest
    }
}

impl Invitation {
    pub(super) fn new(member: Member, by: Author, expires: Moment) -> Self {
        Self {
            member,
            by,
            expires,
            used: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(number: u32) -> Digest {
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        Digest(bytes)
    }

    #[test]
    fn later_date_outdates_published_lists() {
        let mut membership = Membership::default();
        let mut published = membership.deny_lists();
        assert!(!membership.outdates(&published));
        let begins = Moment::from_micros(1_700_000_000_000_000);
        // An admission changes no list.
        let mut admit = |at, published: &DenyLists| {
            membership.admit(at, secret(1), secret(2), String::new());
            assert_eq!(membership.as_of(), membership.deny_lists().as_of);
            let is_due = membership.outdates(published);
            (is_due, membership.deny_lists())
        };
        let (is_due, dated) = admit(begins, &published);
        assert!(is_due, "it has its first date");
        published = dated;
        assert!(!admit(begins + Duration::from_secs(59), &published).0);
        assert!(admit(begins + Duration::from_secs(60), &published).0);
    }

    #[test]
    fn oldest_spent_token_is_forgotten_first() {
        let most = u32::try_from(MAX_SPENT_TOKENS).unwrap();
        // The secret of the oldest is neither the first nor the last in order.
        let oldest = most / 2;
        let until = |number| SPENT_TOKEN_TTL + Duration::from_secs(u64::from(number != oldest));
        let spent = (0..most).map(|number| (secret(number), Moment::default() + until(number)));
        let mut membership = Membership {
            spent: spent.collect(),
            ..Membership::default()
        };
        membership.remember(Moment::from_micros(1), secret(most));
        assert_eq!(membership.spent.len(), MAX_SPENT_TOKENS);
        assert!(!membership.spent.contains_key(&secret(oldest)));
        assert!(membership.spent.contains_key(&secret(most)));
    }
}
