//! The leader's part: proposals, reads, membership changes.

use std::collections::BTreeSet;

use raft::ReadState;

use super::Replica;
use super::applying::Proposal;
use crate::change::{Change, ChangeRefused};
use crate::effect::{Effect, NotLeading, ProposalRefused, ReadId, RequestId};
use crate::wire::MemberId;

/// The limit of a proposal. Peers get an entry in one message of at most 64 MiB.
pub const MAX_PROPOSAL_BYTES: usize = (64 << 20) - (64 << 10);

impl Replica {
    /// Proposes an entry. It may be lost when the leader changes; proposed again under the same id, there or
    /// elsewhere, it is applied once. An oversized proposal is refused.
    pub fn propose(&mut self, request: RequestId, payload: Vec<u8>) -> Result<(), ProposalRefused> {
        if !self.leads() {
            return Err(NotLeading.into());
        }
        if payload.len() > MAX_PROPOSAL_BYTES {
            return Err(ProposalRefused::Oversized {
                length_bytes: payload.len(),
                limit_bytes: MAX_PROPOSAL_BYTES,
            });
        }
        self.proposals.push_back((request, payload));
        Ok(())
    }

    /// Requests a read. Once it is ready, it sees everything that was committed before this call.
    pub fn read(&mut self, read: ReadId) -> Result<(), NotLeading> {
        if !self.leads() {
            return Err(NotLeading);
        }
        self.reads.push(read);
        Ok(())
    }

    /// Proposes a membership change; [`Effect::Membership`] reports its result.
    pub fn change(&mut self, change: &Change) -> Result<(), ChangeRefused> {
        if !self.leads() {
            return Err(ChangeRefused::NotLeading);
        }
        if let Some(objection) = self.members.objection(change) {
            return Err(objection);
        }
        let is_joint = !self.members.configuration.voters_outgoing.is_empty();
        if is_joint || self.node.raft.has_pending_conf() {
            return Err(ChangeRefused::Busy);
        }
        self.would_go_on(change)?;
        let steps = self.members.steps(change);
        // Writing to memory does not fail.
        let context = postcard::to_stdvec(change).unwrap_or_default();
        let proposed = self.node.propose_conf_change(context, steps);
        proposed.map_err(|_| ChangeRefused::Busy)
    }

    /// Checks that a quorum of the remaining members is connected. The leader is never removed.
    fn would_go_on(&mut self, change: &Change) -> Result<(), ChangeRefused> {
        let own = self.id();
        let voters = self.members.voters_after(change);
        if !voters.contains(&own) {
            self.hand_over(&voters);
            return Err(ChangeRefused::HandingOver(own));
        }
        // A new member removes no vote, and is needed just when another one is dead.
        if voters.len() < self.members.configuration.voters.len() {
            self.expect_quorum(voters.len(), &voters)?;
        }
        self.would_leave_joint(change, &voters)
    }

    /// A replaced member stops with the entry that replaces it. The next entry, which leaves the joint configuration,
    /// also needs a quorum of the old voters (Raft, section 6), and so a quorum without that member.
    fn would_leave_joint(
        &self,
        change: &Change,
        voters: &BTreeSet<MemberId>,
    ) -> Result<(), ChangeRefused> {
        let before: BTreeSet<_> = self.members.configuration.voters.iter().copied().collect();
        let is_joint = matches!(change, Change::Promote { .. }) && !before.is_subset(voters);
        if is_joint {
            self.expect_quorum(before.len(), &(&before & voters))?;
        }
        Ok(())
    }

    /// Checks that a quorum of `voters` is among these and connected.
    fn expect_quorum(&self, voters: usize, of: &BTreeSet<MemberId>) -> Result<(), ChangeRefused> {
        let (needed, heard) = (voters / 2 + 1, self.heard_of(of).count());
        if heard < needed {
            return Err(ChangeRefused::NoQuorum {
                voters,
                needed,
                heard,
            });
        }
        Ok(())
    }

    /// The voters that were heard within an election timeout.
    fn heard_of(&self, voters: &BTreeSet<MemberId>) -> impl Iterator<Item = MemberId> {
        let (own, most) = (self.id(), self.timing.election_ticks);
        let lately = move |id: &MemberId| {
            let heard = self.heard.get(id);
            heard.is_some_and(|heard| self.ticks - heard <= most)
        };
        let voters = voters.iter().copied();
        voters.filter(move |id| *id == own || lately(id))
    }

    /// Transfers leadership to another replica that can lead and is not in `unfit`.
    pub fn resign(&mut self, unfit: &BTreeSet<MemberId>) {
        if self.leads() {
            let voters = self.members.configuration.voters.iter().copied();
            let own = self.id();
            let fit = voters.filter(|id| *id != own && !unfit.contains(id));
            self.hand_over(&fit.collect());
        }
    }

    /// Stops leading because the disk is full: the others elect a new leader, and this replica ignores their messages.
    /// It reports that at once, even during a write.
    pub fn stop_leading(&mut self) {
        let term = self.node.raft.term;
        self.node.raft.become_follower(term, raft::INVALID_ID);
        self.draw_timeout();
        self.report_standing();
    }

    fn hand_over(&mut self, voters: &BTreeSet<MemberId>) {
        let progress = self.node.raft.prs();
        let matched = |id: &MemberId| progress.get(id.0).map(|peer| peer.matched);
        if let Some(next) = self.heard_of(voters).max_by_key(matched) {
            self.node.transfer_leader(next.0);
        }
    }

    /// Proposes waiting entries in order, as many as Raft accepts.
    pub(super) fn propose_waiting(&mut self) {
        if !self.leads() || !self.is_leader() {
            return;
        }
        while let Some((request, payload)) = self.proposals.pop_front() {
            let proposal = Proposal { request, payload };
            let Ok(data) = postcard::to_stdvec(&proposal) else {
                continue;
            };
            if self.node.propose(Vec::new(), data).is_err() {
                let Proposal { request, payload } = proposal;
                return self.proposals.push_front((request, payload));
            }
        }
    }

    pub(super) fn ask_reads(&mut self) {
        if self.leads()
            && self.is_leader()
            && let Some(number) = self.reads.ask()
        {
            self.node.read_index(number.to_be_bytes().to_vec());
        }
    }

    pub(super) fn confirm_read(&mut self, read: &ReadState) {
        if let Ok(number) = <[u8; 8]>::try_from(&read.request_ctx[..]) {
            self.reads.confirm(u64::from_be_bytes(number), read.index);
        }
        self.release_reads();
    }

    pub(super) fn release_reads(&mut self) {
        let ready = self.reads.take_ready(self.applied);
        self.effects
            .extend(ready.into_iter().map(Effect::ReadReady));
    }

    /// Stops leading. The proposals may still be committed; no caller here gets a reply.
    pub(super) fn step_down(&mut self) {
        self.proposals.clear();
        self.snapshots_out.clear();
        let lost = self.reads.take_all();
        self.effects.extend(lost.into_iter().map(Effect::ReadLost));
    }

    /// Aborts lost snapshots, for which Raft would wait forever.
    pub(super) fn give_up_on_snapshots(&mut self) {
        let patience = self.timing.snapshot_ticks;
        let progress = self.node.raft.prs();
        self.snapshots_out.retain(|id, _| {
            let peer = progress.get(*id);
            peer.is_some_and(|peer| peer.state == raft::ProgressState::Snapshot)
        });
        let mut late = Vec::new();
        for (id, ticks) in &mut self.snapshots_out {
            *ticks += 1;
            if *ticks >= patience {
                late.push(*id);
            }
        }
        for id in late {
            self.snapshots_out.remove(&id);
            self.node.report_snapshot(id, raft::SnapshotStatus::Failure);
        }
    }

    pub(super) fn promote_who_caught_up(&mut self) {
        let raft = &self.node.raft;
        let lag = self.timing.promotion_lag;
        // A new log is short: a replica that holds nothing of it has not answered yet.
        let needed = raft.raft_log.last_index().saturating_sub(lag).max(1);
        let caught_up = |id: &MemberId| {
            let peer = raft.prs().get(id.0);
            peer.is_some_and(|peer| peer.recent_active && peer.matched >= needed)
        };
        let learners = &self.members.configuration.learners;
        if let Some(id) = learners.iter().copied().find(caught_up) {
            // If another change is running, the next tick retries.
            let _ = self.change(&Change::Promote { id });
        }
    }
}
