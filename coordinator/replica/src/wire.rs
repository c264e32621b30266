//! Messages and records of replicas, as types of this crate.

use std::fmt;

use raft::eraftpb::{
    self, ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2, ConfState,
    EntryType, HardState, MessageType,
};
use serde::{Deserialize, Serialize};

use crate::change::{steps_in, steps_out};

/// Numbers the replicas of a cluster. A replica that has lost its data returns with another number.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct MemberId(pub u64);

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Names a data folder, drawn at random when the folder is made. Two folders never share an id, so a replica that
/// returns without its data is recognised as another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FolderId(pub u64);

/// All kinds of messages that a peer may send; others are local, or forwarded nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    Append,
    AppendResponse,
    RequestVote,
    RequestVoteResponse,
    Snapshot,
    Heartbeat,
    HeartbeatResponse,
    TimeoutNow,
    RequestPreVote,
    RequestPreVoteResponse,
}

/// The fields have Raft's meaning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    pub kind: Kind,
    pub from: MemberId,
    pub to: MemberId,
    pub term: u64,
    pub log_term: u64,
    pub index: u64,
    pub commit: u64,
    pub commit_term: u64,
    pub entries: Vec<Entry>,
    pub snapshot: Option<Box<Snapshot>>,
    pub request_snapshot: u64,
    pub reject: bool,
    pub reject_hint: u64,
    pub context: Vec<u8>,
    pub priority: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub term: u64,
    pub index: u64,
    pub content: EntryContent,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "Content")]
pub enum EntryContent {
    /// Nothing, when a new leader shows that it leads.
    Proposal(Vec<u8>),
    Membership {
        steps: Vec<(Step, MemberId)>,
        transition: Transition,
        change: Vec<u8>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    AddVoter,
    Remove,
    AddLearner,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Transition {
    Auto,
    Implicit,
    Explicit,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    pub index: u64,
    pub term: u64,
    pub configuration: Configuration,
    pub data: Vec<u8>,
}

/// The voters, and the future voters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configuration {
    pub voters: Vec<MemberId>,
    pub learners: Vec<MemberId>,
    /// Those who voted before, while a change is under way.
    pub voters_outgoing: Vec<MemberId>,
    pub learners_next: Vec<MemberId>,
    pub auto_leave: bool,
}

/// The durable state of elections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vote {
    pub term: u64,
    pub vote: u64,
    pub commit: u64,
}

const KIND_TABLE: [(Kind, MessageType); 10] = [
    (Kind::Append, MessageType::MsgAppend),
    (Kind::AppendResponse, MessageType::MsgAppendResponse),
    (Kind::RequestVote, MessageType::MsgRequestVote),
    (
        Kind::RequestVoteResponse,
        MessageType::MsgRequestVoteResponse,
    ),
    (Kind::Snapshot, MessageType::MsgSnapshot),
    (Kind::Heartbeat, MessageType::MsgHeartbeat),
    (Kind::HeartbeatResponse, MessageType::MsgHeartbeatResponse),
    (Kind::TimeoutNow, MessageType::MsgTimeoutNow),
    (Kind::RequestPreVote, MessageType::MsgRequestPreVote),
    (
        Kind::RequestPreVoteResponse,
        MessageType::MsgRequestPreVoteResponse,
    ),
];

impl Kind {
    fn of(theirs: MessageType) -> Option<Self> {
        let found = KIND_TABLE.into_iter().find(|(_, known)| *known == theirs);
        found.map(|(kind, _)| kind)
    }

    fn raft(self) -> MessageType {
        let found = KIND_TABLE.into_iter().find(|(kind, _)| *kind == self);
        found.map_or(MessageType::MsgHeartbeat, |(_, theirs)| theirs)
    }
}

impl Message {
    /// One that says nothing beyond its kind and its term.
    pub fn new(kind: Kind, [from, to]: [MemberId; 2], term: u64) -> Self {
        Self {
            kind,
            from,
            to,
            term,
            log_term: 0,
            index: 0,
            commit: 0,
            commit_term: 0,
            entries: Vec::new(),
            snapshot: None,
            request_snapshot: 0,
            reject: false,
            reject_hint: 0,
            context: Vec::new(),
            priority: 0,
        }
    }

    /// Whether it holds a snapshot, which is as long as the state: a heartbeat that waits behind it comes too late.
    pub fn is_large(&self) -> bool {
        self.kind == Kind::Snapshot
    }

    /// None for kinds that never leave a replica.
    pub(crate) fn of(mut message: eraftpb::Message) -> Option<Self> {
        let kind = Kind::of(message.get_msg_type())?;
        let snapshot = (kind == Kind::Snapshot).then(|| message.take_snapshot());
        let entries = message.take_entries().into_iter();
        Some(Self {
            kind,
            from: MemberId(message.from),
            to: MemberId(message.to),
            term: message.term,
            log_term: message.log_term,
            index: message.index,
            commit: message.commit,
            commit_term: message.commit_term,
            entries: entries.map(|entry| Entry::of(&entry)).collect(),
            snapshot: snapshot.map(|snapshot| Box::new(Snapshot::of(&snapshot))),
            request_snapshot: message.request_snapshot,
            reject: message.reject,
            reject_hint: message.reject_hint,
            context: message.context.to_vec(),
            priority: message.priority,
        })
    }

    pub(crate) fn into_raft(self) -> eraftpb::Message {
        let mut message = eraftpb::Message::default();
        message.set_msg_type(self.kind.raft());
        message.from = self.from.0;
        message.to = self.to.0;
        message.term = self.term;
        message.log_term = self.log_term;
        message.index = self.index;
        message.commit = self.commit;
        message.commit_term = self.commit_term;
        let entries: Vec<_> = self.entries.into_iter().map(Entry::into_raft).collect();
        message.set_entries(entries.into());
        if let Some(snapshot) = self.snapshot {
            message.set_snapshot(snapshot.into_raft());
        }
        message.request_snapshot = self.request_snapshot;
        message.reject = self.reject;
        message.reject_hint = self.reject_hint;
        message.context = self.context.into();
        message.priority = self.priority;
        message
    }
}

impl Entry {
    pub(crate) fn of(entry: &eraftpb::Entry) -> Self {
        let content = match entry.get_entry_type() {
            EntryType::EntryNormal => EntryContent::Proposal(entry.data.to_vec()),
            EntryType::EntryConfChange | EntryType::EntryConfChangeV2 => {
                EntryContent::membership(&steps_in(&entry.data).unwrap_or_default(), &entry.context)
            }
        };
        Self {
            term: entry.term,
            index: entry.index,
            content,
        }
    }

    pub(crate) fn into_raft(self) -> eraftpb::Entry {
        let mut entry = eraftpb::Entry {
            term: self.term,
            index: self.index,
            ..eraftpb::Entry::default()
        };
        match self.content {
            EntryContent::Proposal(data) => entry.data = data.into(),
            EntryContent::Membership {
                steps,
                transition,
                change,
            } => {
                entry.set_entry_type(EntryType::EntryConfChangeV2);
                entry.data = steps_out(&raft_steps(&steps, transition)).into();
                entry.context = change.into();
            }
        }
        entry
    }
}

impl EntryContent {
    fn membership(steps: &ConfChangeV2, change: &[u8]) -> Self {
        let step = |step: &ConfChangeSingle| {
            let kind = match step.get_change_type() {
                ConfChangeType::AddNode => Step::AddVoter,
                ConfChangeType::RemoveNode => Step::Remove,
                ConfChangeType::AddLearnerNode => Step::AddLearner,
            };
            (kind, MemberId(step.node_id))
        };
        let transition = match steps.get_transition() {
            ConfChangeTransition::Auto => Transition::Auto,
            ConfChangeTransition::Implicit => Transition::Implicit,
            ConfChangeTransition::Explicit => Transition::Explicit,
        };
        Self::Membership {
            steps: steps.get_changes().iter().map(step).collect(),
            transition,
            change: change.to_vec(),
        }
    }
}

fn raft_steps(steps: &[(Step, MemberId)], transition: Transition) -> ConfChangeV2 {
    let single = |&(step, id): &(Step, MemberId)| {
        let mut single = ConfChangeSingle::default();
        single.set_change_type(match step {
            Step::AddVoter => ConfChangeType::AddNode,
            Step::Remove => ConfChangeType::RemoveNode,
            Step::AddLearner => ConfChangeType::AddLearnerNode,
        });
        single.node_id = id.0;
        single
    };
    let mut all = ConfChangeV2::default();
    all.set_changes(steps.iter().map(single).collect::<Vec<_>>().into());
    all.set_transition(match transition {
        Transition::Auto => ConfChangeTransition::Auto,
        Transition::Implicit => ConfChangeTransition::Implicit,
        Transition::Explicit => ConfChangeTransition::Explicit,
    });
    all
}

impl Snapshot {
    pub(crate) fn of(snapshot: &eraftpb::Snapshot) -> Self {
        let about = snapshot.get_metadata();
        Self {
            index: about.index,
            term: about.term,
            configuration: Configuration::from(about.get_conf_state()),
            data: snapshot.data.to_vec(),
        }
    }

    pub(crate) fn into_raft(self) -> eraftpb::Snapshot {
        let mut snapshot = eraftpb::Snapshot {
            data: self.data.into(),
            ..eraftpb::Snapshot::default()
        };
        let about = snapshot.mut_metadata();
        about.index = self.index;
        about.term = self.term;
        about.set_conf_state(ConfState::from(&self.configuration));
        snapshot
    }
}

impl From<&ConfState> for Configuration {
    fn from(state: &ConfState) -> Self {
        // Raft keeps them in no order of meaning.
        let ids = |ids: &[u64]| {
            let mut ids: Vec<_> = ids.iter().copied().map(MemberId).collect();
            ids.sort_unstable();
            ids
        };
        Self {
            voters: ids(state.get_voters()),
            learners: ids(state.get_learners()),
            voters_outgoing: ids(state.get_voters_outgoing()),
            learners_next: ids(state.get_learners_next()),
            auto_leave: state.auto_leave,
        }
    }
}

impl From<&Configuration> for ConfState {
    fn from(ours: &Configuration) -> Self {
        let ids = |ids: &[MemberId]| ids.iter().map(|id| id.0).collect();
        Self {
            voters: ids(&ours.voters),
            learners: ids(&ours.learners),
            voters_outgoing: ids(&ours.voters_outgoing),
            learners_next: ids(&ours.learners_next),
            auto_leave: ours.auto_leave,
            ..Self::default()
        }
    }
}

impl From<&HardState> for Vote {
    fn from(state: &HardState) -> Self {
        Self {
            term: state.term,
            vote: state.vote,
            commit: state.commit,
        }
    }
}

impl From<Vote> for HardState {
    fn from(vote: Vote) -> Self {
        let mut state = Self::default();
        (state.term, state.vote, state.commit) = (vote.term, vote.vote, vote.commit);
        state
    }
}
