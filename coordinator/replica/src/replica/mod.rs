//! One replica: Raft's state machine, and what Raft leaves to its users.

mod applying;
mod hearing;
mod leading;

use std::collections::{BTreeMap, VecDeque};

use raft::eraftpb::{ConfState, Snapshot as RaftSnapshot};
use raft::{Progress, ProgressState, RawNode, Ready, StateRole};
use serde::{Deserialize, Serialize};

use crate::change::{Member, Members};
use crate::effect::{Effect, LostLog, RequestId, Standing, StartError};
use crate::exact::decode_exact;
use crate::journal::{Batch, Record, Saved};
use crate::memory::Memory;
use crate::reads::Reads;
use crate::timing::{Timing, Turn};
use crate::wire::{Configuration, Entry, Kind, MemberId, Message, Snapshot, Vote};
use applying::SnapshotDue;
pub use applying::{MAX_STATE_BYTES, Proposal};
pub use leading::MAX_PROPOSAL_BYTES;

/// The initial state of a cluster, the same for all founders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Founding {
    pub members: BTreeMap<MemberId, Member>,
    /// The state before any entry, as in a snapshot.
    pub state: Vec<u8>,
}

/// The content of a snapshot, around the caller's state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Envelope {
    members: Members,
    /// The highest applied number of each client.
    requests: BTreeMap<u64, u64>,
    state: Vec<u8>,
}

pub struct Replica {
    node: RawNode<Memory>,
    timing: Timing,
    head: Vec<u8>,
    members: Members,
    /// The latest list of members that a member has applied, if it is later than `members`.
    reported_members: Members,
    /// Members that may be added soon, as last reported.
    pending_members: BTreeMap<MemberId, Member>,
    requests: BTreeMap<u64, u64>,
    effects: VecDeque<Effect>,
    /// The batch that is being made durable. Until then there are no new effects.
    writing: Option<Writing>,
    /// The last reported leader.
    reported: Standing,
    /// The last leader.
    led: MemberId,
    reads: Reads,
    ticks: usize,
    /// The tick at which each peer was last heard.
    heard: BTreeMap<MemberId, usize>,
    /// Proposals that Raft has not accepted yet.
    proposals: VecDeque<(RequestId, Vec<u8>)>,
    /// Peers that were sent a snapshot, and the ticks without an answer.
    snapshots_out: BTreeMap<u64, usize>,
    snapshot_due: Option<SnapshotDue>,
    /// The snapshot of the file that is being written.
    compacting: Option<RaftSnapshot>,
    /// A failed compaction is not requested again before this tick.
    compaction_retry: Option<usize>,
    /// The next snapshot must hold this entry, however few have come since the last one.
    compact_to: u64,
    /// Bytes applied since the last snapshot.
    bytes_applied: usize,
    applied: u64,
    applied_term: u64,
}

/// What Raft wants to make durable, and what may be sent and restored afterwards.
struct Writing {
    number: u64,
    messages: Vec<raft::eraftpb::Message>,
    restored: Option<u64>,
}

/// The replica's status, for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    pub id: MemberId,
    pub standing: Standing,
    pub leader: Option<MemberId>,
    pub term: u64,
    pub applied: u64,
    pub committed: u64,
    pub last: u64,
    pub members: Members,
    /// How far each peer has the log. A leader knows it of the peers that have answered since its election.
    pub matched: BTreeMap<MemberId, u64>,
}

impl Saved {
    /// The first batch of a founder's log, to be made durable before the replica starts.
    pub fn founding(id: MemberId, head: Vec<u8>, founding: Founding) -> Self {
        let members = Members::founded(founding.members);
        let configuration = members.configuration.clone();
        let envelope = Envelope {
            members,
            requests: BTreeMap::new(),
            state: founding.state,
        };
        Self {
            member: id,
            head,
            snapshot: Snapshot {
                index: 1,
                term: 1,
                configuration,
                data: envelope.encode(),
            },
            entries: Vec::new(),
            vote: Vote {
                term: 1,
                vote: 0,
                commit: 1,
            },
        }
    }

    /// The first batch of a member that joins: its number, and the members that it was given.
    pub fn joining(id: MemberId, head: Vec<u8>, members: Members) -> Self {
        let envelope = Envelope {
            members: Members {
                configuration: Configuration::default(),
                ..members
            },
            ..Envelope::default()
        };
        Self {
            member: id,
            head,
            snapshot: Snapshot {
                index: 0,
                term: 0,
                configuration: Configuration::default(),
                data: envelope.encode(),
            },
            entries: Vec::new(),
            vote: Vote::default(),
        }
    }

    /// The state in the snapshot, if this version can read it.
    pub fn state(&self) -> Result<Vec<u8>, StartError> {
        Ok(Envelope::of(&self.snapshot)?.state)
    }
}

impl Envelope {
    fn encode(&self) -> Vec<u8> {
        // Writing to memory does not fail.
        postcard::to_stdvec(self).unwrap_or_default()
    }

    fn decode(data: &[u8]) -> Option<Self> {
        decode_exact(data).ok()
    }

    /// Refuses an unreadable snapshot: otherwise the replica would start with an empty state.
    fn of(snapshot: &Snapshot) -> Result<Self, StartError> {
        let index = snapshot.index;
        Self::decode(&snapshot.data).ok_or(StartError::UnknownSnapshot { index })
    }
}

impl Replica {
    /// Continues from the saved log. Entries are applied to the state in its snapshot.
    pub fn new(saved: &Saved, timing: Timing) -> Result<Self, StartError> {
        let config = timing.raft(saved.member.0, saved.snapshot.index);
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let node = RawNode::new(&config, Memory::of(saved), &logger).map_err(StartError::Raft)?;
        let envelope = Envelope::of(&saved.snapshot)?;
        let mut replica = Self {
            node,
            timing,
            head: saved.head.clone(),
            members: envelope.members,
            reported_members: Members::default(),
            pending_members: BTreeMap::new(),
            requests: envelope.requests,
            effects: VecDeque::new(),
            writing: None,
            reported: Standing::Follows { leader: None },
            led: MemberId::default(),
            reads: Reads::default(),
            ticks: 0,
            heard: BTreeMap::new(),
            proposals: VecDeque::new(),
            snapshots_out: BTreeMap::new(),
            snapshot_due: None,
            compacting: None,
            compaction_retry: None,
            compact_to: 0,
            bytes_applied: 0,
            applied: saved.snapshot.index,
            applied_term: saved.snapshot.term,
        };
        replica.draw_timeout();
        replica.report_pending_members();
        replica.campaign_if_alone();
        Ok(replica)
    }

    /// Campaigns at once if no other vote is needed.
    fn campaign_if_alone(&mut self) {
        let configuration = &self.members.configuration;
        let alone = configuration.voters == [self.id()] && configuration.voters_outgoing.is_empty();
        if alone {
            // Raft refuses while membership changes wait to be applied; ticks will campaign then.
            let _ = self.node.campaign();
            self.draw_timeout();
        }
    }

    pub fn id(&self) -> MemberId {
        MemberId(self.node.raft.id)
    }

    pub fn members(&self) -> &Members {
        &self.members
    }

    pub fn standing(&self) -> Standing {
        self.reported
    }

    /// Whether a batch is being made durable.
    pub fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    pub fn status(&self) -> Status {
        let raft = &self.node.raft;
        let is_leader = raft.state == StateRole::Leader;
        let matched = raft.prs().iter().filter(|_| is_leader);
        let matched = matched.filter(|(_, progress)| is_known(progress));
        Status {
            id: self.id(),
            standing: self.reported,
            leader: self.leader(),
            term: raft.term,
            applied: self.applied,
            committed: raft.raft_log.committed,
            last: raft.raft_log.last_index(),
            members: self.members.clone(),
            matched: matched
                .map(|(&id, progress)| (MemberId(id), progress.matched))
                .collect(),
        }
    }

    /// The latest known term.
    pub fn term(&self) -> u64 {
        self.node.raft.term
    }

    /// The term in which this replica was elected, if it still leads as far as it knows.
    pub fn elected(&self) -> Option<u64> {
        self.is_leader().then_some(self.node.raft.term)
    }

    /// Index and term of the last entry.
    pub fn last(&self) -> (u64, u64) {
        let log = &self.node.raft.raft_log;
        (log.last_index(), log.last_term())
    }

    /// The entries after this index that are in memory.
    pub fn log(&self, after: u64) -> Vec<Entry> {
        let stable = self.node.raft.store().after(after);
        let unstable = self.node.raft.raft_log.unstable_entries();
        let first_unstable = unstable.first().map_or(u64::MAX, |entry| entry.index);
        let stable = stable.filter(|entry| entry.index < first_unstable);
        let unstable = unstable.iter().filter(|entry| entry.index > after);
        stable.chain(unstable).map(Entry::of).collect()
    }

    pub fn handle_tick(&mut self) {
        self.node.tick();
        self.ticks += 1;
        self.reads.tick(self.timing.election_ticks);
        // A leader without a quorum does not report that it leads.
        if self.is_leader() {
            self.give_up_on_snapshots();
            self.promote_who_caught_up();
        }
        self.draw_timeout();
    }

    pub fn handle_message(&mut self, message: Message) -> Result<(), LostLog> {
        if message.to != self.id() || !is_readable(&message) {
            return Ok(());
        }
        let is_of_leader = message.kind == Kind::Heartbeat && message.term >= self.node.raft.term;
        if is_of_leader && message.commit > self.node.raft.raft_log.last_index() {
            return self.lost_log(&message);
        }
        self.heard.insert(message.from, self.ticks);
        // A message that Raft refuses counts as lost.
        let _ = self.node.step(message.into_raft());
        self.draw_timeout();
        Ok(())
    }

    /// Checks a heartbeat's commit index against this log: a leader only sends what it knows to be here. Such a
    /// heartbeat of a non-voter is dropped, because Raft would panic.
    fn lost_log(&self, heartbeat: &Message) -> Result<(), LostLog> {
        if !self.members().votes_ever(heartbeat.from) {
            return Ok(());
        }
        Err(LostLog {
            id: self.id(),
            held: heartbeat.commit,
            ends: self.node.raft.raft_log.last_index(),
        })
    }

    /// There is no connection to this peer.
    pub fn handle_unreachable(&mut self, peer: MemberId) {
        self.node.report_unreachable(peer.0);
    }

    /// The batch of the last [`Effect::Persist`] survives a power loss now.
    pub fn handle_durable(&mut self) {
        if let Some(writing) = self.writing.take() {
            self.settle(writing);
        }
    }

    pub fn poll_effect(&mut self) -> Option<Effect> {
        loop {
            if let Some(effect) = self.effects.pop_front() {
                return Some(effect);
            }
            if self.writing.is_some() || !self.advance() {
                return None;
            }
        }
    }

    /// Takes one step. Returns whether there was anything to do.
    fn advance(&mut self) -> bool {
        self.propose_waiting();
        self.ask_reads();
        // Otherwise entries that others committed since could be taken for proposals of this replica.
        if self.has_lost_the_lead() {
            return self.report_standing();
        }
        if self.node.has_ready() {
            self.take_ready();
            return true;
        }
        self.report_standing() || self.wants_snapshot()
    }

    fn take_ready(&mut self) {
        let mut ready = self.node.ready();
        self.send(ready.take_messages());
        let number = ready.number();
        let must_write = ready.must_sync();
        self.look_for_members(ready.entries());
        let batch = self.remember(&ready);
        let restored =
            (!ready.snapshot().is_empty()).then(|| ready.snapshot().get_metadata().index);
        let messages = ready.take_persisted_messages();
        let reads = ready.take_read_states();
        let committed = ready.take_committed_entries();
        self.node.advance_append_async(ready);
        self.apply(committed);
        for read in reads {
            self.confirm_read(&read);
        }
        let writing = Writing {
            number,
            messages,
            restored,
        };
        if must_write {
            self.effects.push_back(Effect::Persist(batch));
            self.writing = Some(writing);
        } else {
            self.settle(writing);
        }
        self.draw_timeout();
    }

    /// Takes what Raft wants to keep. Returns the records to write.
    fn remember(&mut self, ready: &Ready) -> Batch {
        let memory = self.node.raft.mut_store();
        if let Some(vote) = ready.hs() {
            memory.set_vote(vote.clone());
        }
        if !ready.snapshot().is_empty() {
            memory.restore(ready.snapshot().clone());
            // Both are older than this snapshot.
            (self.snapshot_due, self.compacting) = (None, None);
            self.compaction_retry = None;
        }
        memory.append(ready.entries());
        let vote = Record::Vote(Vote::from(memory.vote()));
        let entries = ready
            .entries()
            .iter()
            .map(|entry| Record::Entry(Entry::of(entry)));
        if ready.snapshot().is_empty() {
            return Batch {
                records: std::iter::once(vote).chain(entries).collect(),
                is_whole: false,
            };
        }
        self.whole(self.node.raft.store().snapshot())
    }

    /// Everything in memory, as a new file that begins with this snapshot.
    fn whole(&self, snapshot: &RaftSnapshot) -> Batch {
        let memory = self.node.raft.store();
        let snapshot = Snapshot::of(snapshot);
        let entries = memory.after(snapshot.index).map(Entry::of);
        let saved = Saved {
            member: self.id(),
            head: self.head.clone(),
            entries: entries.collect(),
            snapshot,
            vote: Vote::from(memory.vote()),
        };
        saved.whole()
    }

    fn settle(&mut self, writing: Writing) {
        self.node.on_persist_ready(writing.number);
        self.send(writing.messages);
        if let Some(index) = writing.restored {
            self.restore(index);
        }
    }

    fn send(&mut self, messages: Vec<raft::eraftpb::Message>) {
        for message in messages.into_iter().filter_map(Message::of) {
            if message.kind == Kind::Snapshot {
                self.snapshots_out.insert(message.to.0, 0);
            }
            self.effects.push_back(Effect::Send(message));
        }
    }

    fn report_standing(&mut self) -> bool {
        let raft = &self.node.raft;
        let term = raft.term;
        let now = if self.is_leader() && self.applied_term == term {
            Standing::Leads { term }
        } else {
            let leader = self.leader().filter(|_| !self.is_leader());
            Standing::Follows { leader }
        };
        let is_news = now != self.reported;
        if is_news {
            if self.leads() {
                self.step_down();
            }
            self.reported = now;
            self.effects.push_back(Effect::Stands(now));
        }
        is_news
    }

    fn is_leader(&self) -> bool {
        self.node.raft.state == StateRole::Leader
    }

    /// And this was not reported yet.
    fn has_lost_the_lead(&self) -> bool {
        match self.reported {
            Standing::Leads { term } => self.elected() != Some(term),
            Standing::Follows { .. } => false,
        }
    }

    /// Whether it leads, as last reported.
    fn leads(&self) -> bool {
        matches!(self.reported, Standing::Leads { .. })
    }

    fn leader(&self) -> Option<MemberId> {
        let leader = self.node.raft.leader_id;
        (leader != raft::INVALID_ID).then_some(MemberId(leader))
    }

    /// Replaces Raft's random election timeout by a reproducible one.
    fn draw_timeout(&mut self) {
        if let Some(leader) = self.leader() {
            self.led = leader;
        }
        let (id, term) = (self.id(), self.node.raft.term);
        let turn = Turn::of(id, term, self.led, &self.members.configuration.voters);
        let timeout = self.timing.election_timeout(id.0, term, turn);
        self.node.raft.set_randomized_election_timeout(timeout);
    }

    fn configure(&mut self, state: ConfState) {
        self.members.configure(&state);
        self.node.raft.mut_store().configure(state);
        let members = self.members.clone();
        self.effects.push_back(Effect::Membership(members));
        self.report_pending_members();
    }
}

/// Whether the leader knows how far this peer has the log. After an election it takes all for empty, until they answer; a
/// peer that gets a snapshot has answered that it is.
fn is_known(progress: &Progress) -> bool {
    progress.matched > 0 || progress.state == ProgressState::Snapshot
}

/// Whether a snapshot can be read; an unreadable one would leave no state.
fn is_readable(message: &Message) -> bool {
    let snapshot = message.snapshot.as_ref();
    (message.kind == Kind::Snapshot) == snapshot.is_some()
        && snapshot.is_none_or(|snapshot| Envelope::decode(&snapshot.data).is_some())
}

impl std::fmt::Debug for Replica {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.status().fmt(f)
    }
}
