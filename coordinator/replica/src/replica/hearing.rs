//! Members whose messages are accepted before an applied entry adds them.
//!
//! A follower may have missed the entry that added the present leader, or a candidate that requests its vote. It must
//! accept messages of both: no other coordinator sends it that entry, and without it there may be no quorum. In Raft,
//! each server accepts entries of any leader and votes for any candidate, even if they are not in its own
//! configuration (Ongaro, "Consensus: Bridging Theory and Practice", 2014, section 4.1). That assumes that all senders
//! are servers of the cluster. Here a certificate proves only a name and a role: a removed coordinator has one until
//! it is revoked 26 hours later, and a coordinator that was never added may have one. One heartbeat of such a sender
//! would raise the term, and its entries would replace others.
//!
//! So messages of a number are accepted when
//!
//! 1. an applied entry adds it, or
//! 2. an entry of this log adds it that is not applied yet: Raft uses the last configuration of a log, committed or
//!    not (section 4.1), or
//! 3. a member reports it, and an applied entry of this log adds that member. The number is in the list of members
//!    that the other has applied. The list comes over a session with that member's certificate, valid and not revoked.
//!
//! One member is enough. Its list comes from applied entries, which are committed, and so from the same log as the
//! entries here: each number in it is a server of the cluster. Raft tolerates no server that lies, and one that did
//! could send entries itself. A majority could be impossible: if number 4 has replaced number 1, number 3 knows 1, 2
//! and itself, and only number 2 can report number 4.
//!
//! A removed number stays refused. Numbers are assigned once and in order, so a list counts only for numbers above all
//! that are applied here. Of two lists the later one counts, so a number that was removed meanwhile no longer counts.
//! A number that is known by a list alone cannot stop a replica: only a voter can report that this log has lost its
//! end ([`LostLog`]).
//!
//! A follower cannot catch up if all members that it knows were replaced while it was away. An operator removes it and
//! adds it again.
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
    /// Whether messages of this number are accepted, although no applied entry may add it.
    pub fn expects(&self, id: MemberId, name: &str, folder: FolderId) -> bool {
        let is_reported = id > self.members.last && self.reported_members.hears(id, name, folder);
        is_reported || self.with_unapplied().hears(id, name, folder)
    }

    /// Takes the members that another member has applied. The sender must have proven its identity.
    pub fn handle_reported_members(&mut self, by: MemberId, members: Members) {
        let is_member = self.members.of.contains_key(&by);
        let is_ahead = members.last > self.members.last;
        if is_member && is_ahead && members.is_later_than(&self.reported_members) {
            self.reported_members = members;
            self.report_pending_members();
        }
    }

    /// Looks for members in new entries. Entries that were replaced may have added members, too.
    pub(super) fn look_for_members(&mut self, appended: &[RaftEntry]) {
        if !self.pending_members.is_empty() || appended.iter().any(is_of_members) {
            self.report_pending_members();
        }
    }

    pub(super) fn report_pending_members(&mut self) {
        if self.reported_members.last <= self.members.last {
            self.reported_members = Members::default();
        }
        let pending_members = self.members_to_come();
        if pending_members != self.pending_members {
            self.pending_members.clone_from(&pending_members);
            self.effects
                .push_back(Effect::PendingMembers(pending_members));
        }
    }

    /// The members that may be added soon. An uncommitted entry may still be replaced by one that gives its number to
    /// another member, so committed lists win.
    fn members_to_come(&self) -> BTreeMap<MemberId, Member> {
        let mut to_come = self.with_unapplied().of;
        let reported_members = self.reported_members.of.iter();
        let reported_members = reported_members.filter(|(id, _)| **id > self.members.last);
        to_come.extend(reported_members.map(|(&id, member)| (id, member.clone())));
        to_come.retain(|id, _| !self.members.of.contains_key(id));
        to_come
    }

    /// The members after all entries of this log.
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
