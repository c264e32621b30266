//! Numbers that are heard before an applied entry adds them.
//!
//! A follower may have missed the entry that added the coordinator that leads now, or that asks for its vote. It has to hear
//! both: no other coordinator sends it that entry, and there may be no quorum without it. Raft has each server accept entries
//! of any leader and vote for any candidate, also where its own configuration does not have them (Ongaro, "Consensus:
//! Bridging Theory and Practice", 2014, section 4.1). Raft assumes that all of them are servers of the cluster. Here a
//! certificate does not prove that: it proves a name and a role. A removed coordinator keeps it until it is revoked, 26 hours
//! later, and a coordinator that was never added may have one. One heartbeat of either would raise the term, and its entries
//! would replace others.
//!
//! So a number is heard when
//!
//! 1. an applied entry adds it, or
//! 2. an entry of this log adds it that is not applied yet: Raft uses the last configuration of a log, committed or not
//!    (section 4.1), or
//! 3. a member vouches for it, and an applied entry of this log adds that member. The number is in the list of members that
//!    the other has applied. The list comes over a session with that member's certificate, valid and not revoked.
//!
//! One member is enough. Its list comes from applied entries, which are committed, and so of the same log as the entries
//! here: each number in it is a server of the cluster. Raft tolerates no server that lies; one that did could send entries
//! itself. A majority would be missing where it matters. Where number 4 has replaced number 1, number 3 knows 1, 2 and
//! itself, and only number 2 can vouch.
//!
//! A removed number stays unheard. Numbers are given once and in order, so a list counts only for numbers above all that are
//! applied here. Of two lists the later one counts, so it stops to count for a number that was removed meanwhile. A number
//! that is heard by a list alone ends no replica: only a voter can report that this log has lost its end ([`LostLog`]).
//!
//! A follower stays behind if all members that it knows were replaced while it was away. An operator removes it and adds it
//! again.
//!
//! [`LostLog`]: crate::LostLog

use std::collections::BTreeMap;

use raft::eraftpb::{Entry as RaftEntry, EntryType};

use super::Replica;
use crate::change::{Change, Member, Members};
use crate::effect::Effect;
use crate::exact::decode_exact;
use crate::wire::{FolderId, MemberId};

impl Replica {
    /// Whether messages for this number are heard, though no applied entry may add it.
    pub fn expects(&self, id: MemberId, name: &str, folder: FolderId) -> bool {
        let is_vouched = id > self.members.last && self.vouched.hears(id, name, folder);
        is_vouched || self.with_unapplied().hears(id, name, folder)
    }

    /// The members that another one has applied. It has to have proven that it is this one.
    pub fn handle_vouched(&mut self, by: MemberId, members: Members) {
        let is_member = self.members.of.contains_key(&by);
        let is_ahead = members.last > self.members.last;
        if is_member && is_ahead && members.is_later_than(&self.vouched) {
            self.vouched = members;
            self.report_awaited();
        }
    }

    /// Entries that are replaced may have added some, too.
    pub(super) fn look_for_members(&mut self, appended: &[RaftEntry]) {
        if !self.awaited.is_empty() || appended.iter().any(is_of_members) {
            self.report_awaited();
        }
    }

    pub(super) fn report_awaited(&mut self) {
        if self.vouched.last <= self.members.last {
            self.vouched = Members::default();
        }
        let awaited = self.members_to_come();
        if awaited != self.awaited {
            self.awaited.clone_from(&awaited);
            self.effects.push_back(Effect::Awaited(awaited));
        }
    }

    /// An entry of this log may yet be replaced by one that gives its number to another: what is agreed on goes before it.
    fn members_to_come(&self) -> BTreeMap<MemberId, Member> {
        let mut to_come = self.with_unapplied().of;
        let vouched = self.vouched.of.iter();
        let vouched = vouched.filter(|(id, _)| **id > self.members.last);
        to_come.extend(vouched.map(|(&id, member)| (id, member.clone())));
        to_come.retain(|id, _| !self.members.of.contains_key(id));
        to_come
    }

    /// Once all entries of this log are applied.
    fn with_unapplied(&self) -> Members {
        let mut members = self.members.clone();
        let changes = self.unapplied().filter(|it| is_of_members(it));
        let changes = changes.filter_map(|it| decode_exact::<Change>(&it.context).ok());
        changes.for_each(|change| members.apply(&change));
        members
    }

    fn unapplied(&self) -> impl Iterator<Item = &RaftEntry> {
        let applied = self.applied;
        let unstable = self.node.raft.raft_log.unstable_entries();
        let first_unstable = unstable.first().map_or(u64::MAX, |entry| entry.index);
        let stable = self.node.raft.store().after(applied);
        let stable = stable.filter(move |entry| entry.index < first_unstable);
        stable.chain(unstable.iter().filter(move |entry| entry.index > applied))
    }
}

fn is_of_members(entry: &RaftEntry) -> bool {
    entry.get_entry_type() != EntryType::EntryNormal
}
