//! Operators' requests, and the coordinator's answers. Answers name nodes and links, in place of the ids in the
//! pipeline.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::circuit::{CircuitSet, OpticalName};
use crate::member::{DeniedCoordinators, Digest, Member, Role};
use crate::plan::Generation;
use crate::time_span::TimeSpan;

mod audit;
mod discovered;
mod finding;
mod history;
mod imbalance;
mod job;
mod lanes;
mod line;
mod matrix;
mod membership;
mod order;
mod place;
mod plan;
mod refused;
mod resolve;
mod rollback_refused;
mod seal;
mod status;
mod steering;
mod trace;

pub use audit::{AuditOutcome, Audited};
pub use discovered::{Discovered, DiscoveredLink, DiscoveredNode, LinkEnd, LooseEnd};
pub use finding::{Collision, Finding, Findings, Loser, NotSeen, Useless, UselessPin};
pub use history::{FlowChange, FlowOutcome, IterationOutcome, Outcome, Record};
pub use imbalance::{
    FlowImbalance, GroupImbalance, Imbalances, JobImbalance, LayerImbalance, NotedImbalance,
};
pub use job::{Explanation, JobStatus, MeasuredPair, MeasuredPairs, Promise};
pub use lanes::{Lane, Lanes};
pub use line::{Joint, Line, Ranks, Tag, What};
pub use matrix::{Matrix, MatrixCell};
pub use membership::{
    About, CoordinatorStanding, CoordinatorState, CoordinatorStatus, MemberOrder, OpenInvitation,
    RefusedPeer,
};
pub use order::{Allocation, JobOrder, JobPhase, RegisteredJob, StartedJob};
pub use place::{Hop, hops};
pub use plan::{
    Alternative, Base, Iteration, Move, NamedMigration, Pin, Plan, Prediction, Report, TouchedJob,
    Via, Wave,
};
pub use refused::Refused;
pub use resolve::{Unknown, links_named};
pub use rollback_refused::RollbackRefused;
pub use seal::mark;
pub use status::{
    AgentState, AgentStatus, FlowStatus, FrozenStatus, LackStatus, LinkStatus, MaintenanceStage,
    MaintenanceStatus, Mode, OpticalStatus, PairStatus, PathBandwidth, Phase, ProbeCoverage,
    ProbeStatus, RdmaStatus, RunningChange, Status,
};
pub use steering::Steering;
pub use trace::{Between, FlowEnd, TracedFlow, TracedStep, TracedWay};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    Status,
    Diagnose,
    Plan,
    /// A plan by which these optical switches hold these circuits, and routes suit them. The others
    /// stay as they are. Where none is named, all hold what suits the traffic there is.
    Rewire {
        circuits: BTreeMap<OpticalName, CircuitSet>,
    },
    /// Carry out the plan that makes this generation, and no other.
    Apply {
        generation: Generation,
    },
    /// The newest records, or those that are older than this generation's.
    History {
        before: Option<Generation>,
    },
    /// The record of one plan.
    Record {
        generation: Generation,
    },
    /// Let this member join, once, with the token of this digest.
    Invite {
        member: Member,
        token: Digest,
        lasting: TimeSpan,
    },
    /// Shut this member out: its sessions end, and its certificates are worth nothing.
    Revoke {
        member: Member,
    },
    /// Certify a new key for the requester. The core never sees it.
    Renew {
        request: Vec<u8>,
    },
    /// Who the coordinators are.
    Coordinators,
    /// Change that.
    ChangeMembers(MemberOrder),
    /// Permits requests over HTTP in the requester's name with the secret of this digest.
    Visit {
        token: Digest,
        lasting: TimeSpan,
    },
    /// In whose name is asked.
    WhoAmI,
    /// What hosts measured of the way to each other: this many pairs at most, the worst of them. An answer
    /// over a session must fit into one message.
    Matrix {
        most: u32,
    },
    /// Why a job is slow: the one that is registered by this name, or that the host of this name works for, or,
    /// where hosts are named, the one of theirs.
    Explain {
        job: String,
        hosts: Vec<String>,
    },
    /// The bandwidth between hosts beside that of their peers: this many pairs at most, the slowest of them.
    Pairs {
        most: u32,
    },
    /// A plan by which nothing is sent over these links, those of these switches, or those through these
    /// optical switches, and over all others what would go there by itself.
    Drain {
        links: Vec<String>,
    },
    /// A plan by which switches spread what they send over equal ways by what those are worth, or evenly.
    Weigh {
        by_worth: bool,
    },
    /// Carry it out as with [`Request::Apply`], and keep it though flows become slower by it.
    ApplyAnyway {
        generation: Generation,
    },
    /// Which path these flows take, as it was traced last; `refresh` has agents trace them for a while.
    Trace {
        between: Between,
        refresh: bool,
    },
    /// How evenly flows are spread, layer by layer.
    Imbalance,
    /// A plan by which everything is as it was before this change, or before the last that was kept.
    TakeBack {
        generation: Option<Generation>,
    },
    /// The fabric as agents see it; of its links, those from this one on.
    Discover {
        from_link: u32,
    },
    /// Which hosts work together now, as their traffic shows.
    Jobs,
    /// Apply it at once, outside the hours for changes too; anyway as with [`Request::ApplyAnyway`].
    ApplyNow {
        generation: Generation,
        anyway: bool,
    },
    /// Nothing is to be changed under the job that this host works for, or that of these hosts.
    Freeze {
        hosts: Vec<String>,
    },
    /// It may be again.
    Thaw {
        hosts: Vec<String>,
    },
    /// Work on a switch or an optical switch comes to this stage, or to its end; a plan for it where routes
    /// have to change.
    Maintain {
        name: String,
        stage: Option<MaintenanceStage>,
    },
    /// What an orchestrator tells of one of its jobs.
    Job {
        job: String,
        order: JobOrder,
    },
    /// The registered jobs.
    Registered,
    /// Whether these hosts are good for a job, and in which order: by what `job` registered, where it did.
    Gate {
        hosts: Vec<String>,
        job: Option<String>,
    },
    /// Carry it out if what is shown of it still has one of these seals.
    ApplySealed {
        generation: Generation,
        anyway: bool,
        now: bool,
        seals: Vec<String>,
    },
    /// Who asked for what, the newest first; those before this number.
    Audit {
        before: Option<u64>,
    },
    /// The state of the addressed coordinator, whichever coordinator leads, and also without a leader.
    Standing,
    /// What becomes of a plan that is on its way.
    Steer {
        generation: Generation,
        how: Steering,
    },
    /// What ranks on these hosts, which follow each other in this order, send over past the kernel.
    Lanes {
        hosts: Vec<String>,
    },
    /// A plan by which this registered job starts in a better order of its ranks the next time.
    Reorder {
        job: String,
    },
    /// The minor version whose entries all coordinators read: what it is, or what it is to be.
    ClusterVersion {
        minor: Option<u16>,
    },
    /// By which certificates of coordinators are refused, as far as the addressed one has applied the log.
    DenyLists,
}

/// How an approved plan is applied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Approval {
    /// It is kept though flows become slower.
    pub force: bool,
    /// Hours for changes do not count.
    pub now: bool,
}

impl Approval {
    /// The request of an approver who has seen the plan with one of these seals.
    pub fn of_sealed(self, generation: Generation, seals: Vec<String>) -> Request {
        Request::ApplySealed {
            generation,
            anyway: self.force,
            now: self.now,
            seals,
        }
    }

    /// What is asked for it.
    pub fn of(self, generation: Generation) -> Request {
        match self {
            Self { now: true, force } => Request::ApplyNow {
                generation,
                anyway: force,
            },
            Self { force: true, .. } => Request::ApplyAnyway { generation },
            Self { .. } => Request::Apply { generation },
        }
    }
}

impl Request {
    /// Whether a certificate of this role is enough to ask it.
    pub fn may_be_asked_by(&self, role: Role) -> bool {
        match self {
            Self::Status
            | Self::Diagnose
            | Self::History { .. }
            | Self::Record { .. }
            | Self::Coordinators
            | Self::Visit { .. }
            | Self::WhoAmI
            | Self::Matrix { .. }
            | Self::Explain { .. }
            | Self::Pairs { .. }
            | Self::Trace { refresh: false, .. }
            | Self::Imbalance
            | Self::Discover { .. }
            | Self::Jobs
            | Self::Registered
            | Self::Gate { .. }
            | Self::Standing
            | Self::Lanes { .. }
            | Self::ClusterVersion { minor: None }
            | Self::DenyLists
            | Self::Renew { .. } => matches!(role, Role::Operator | Role::Viewer),
            Self::Plan
            | Self::Trace { refresh: true, .. }
            | Self::Rewire { .. }
            | Self::Drain { .. }
            | Self::Weigh { .. }
            | Self::Reorder { .. }
            | Self::TakeBack { .. }
            | Self::Apply { .. }
            | Self::ApplyAnyway { .. }
            | Self::ApplyNow { .. }
            | Self::ApplySealed { .. }
            | Self::Steer { .. }
            | Self::Freeze { .. }
            | Self::Thaw { .. }
            | Self::Maintain { .. }
            | Self::Job { .. }
            | Self::Invite { .. }
            | Self::Revoke { .. }
            | Self::Audit { .. }
            | Self::ClusterVersion { minor: Some(_) }
            | Self::ChangeMembers(_) => role == Role::Operator,
        }
    }

    /// Whether something is written into the log for it.
    pub fn decides(&self) -> bool {
        match self {
            Self::Plan
            | Self::Rewire { .. }
            | Self::Drain { .. }
            | Self::Weigh { .. }
            | Self::Reorder { .. }
            | Self::TakeBack { .. }
            | Self::Apply { .. }
            | Self::ApplyAnyway { .. }
            | Self::ApplyNow { .. }
            | Self::ApplySealed { .. }
            | Self::Steer { .. }
            | Self::Freeze { .. }
            | Self::Thaw { .. }
            | Self::Maintain { .. }
            | Self::Job { .. }
            | Self::Invite { .. }
            | Self::Revoke { .. }
            | Self::ChangeMembers(_)
            | Self::ClusterVersion { minor: Some(_) }
            | Self::Visit { .. } => true,
            Self::Status
            | Self::Diagnose
            | Self::History { .. }
            | Self::Record { .. }
            | Self::Coordinators
            | Self::WhoAmI
            | Self::Matrix { .. }
            | Self::Explain { .. }
            | Self::Pairs { .. }
            | Self::Trace { .. }
            | Self::Imbalance
            | Self::Discover { .. }
            | Self::Jobs
            | Self::Registered
            | Self::Gate { .. }
            | Self::Audit { .. }
            | Self::Standing
            | Self::Lanes { .. }
            | Self::ClusterVersion { minor: None }
            | Self::DenyLists
            | Self::Renew { .. } => false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Response {
    Status(Box<Status>),
    Findings(Findings),
    /// Nothing when there is nothing to repair, or no way to repair it, as far as can be seen.
    Plan {
        plan: Option<Box<Plan>>,
        not_seen: NotSeen,
    },
    ApplyStarted {
        generation: Generation,
    },
    /// The newest first, as many as fit into one answer; none when there are no older ones.
    History(Vec<Record>),
    /// Nothing when it is not known any longer.
    Record(Option<Box<Record>>),
    Refused(Refused),
    Invited {
        expires_in_ms: u64,
    },
    Revoked {
        member: Member,
    },
    /// The new certificate and that of its signer, in PEM.
    Renewed {
        chain_pem: String,
    },
    /// As they are now, after the change if one was asked for.
    Coordinators(Vec<CoordinatorStatus>),
    MayVisit {
        expires_in_ms: u64,
        /// Where the leader shows the page, as that machine has it; nothing where it shows none.
        http: Option<SocketAddr>,
        /// The same over TLS, for other machines too.
        https: Option<SocketAddr>,
    },
    You(Member),
    Matrix(Matrix),
    /// Nothing when there is no such job, as far as traffic shows.
    Explanation(Option<Box<Explanation>>),
    Pairs(MeasuredPairs),
    /// As many as fit into one answer.
    Traced(Vec<TracedFlow>),
    Imbalances(Imbalances),
    Discovered(Discovered),
    /// Those that send most first; not all of a large cluster.
    Jobs(Vec<JobStatus>),
    /// Whose job was frozen or thawed.
    Froze {
        hosts: Vec<String>,
    },
    /// All of them, or the one that the order was about; none when that one is over.
    Registered(Vec<RegisteredJob>),
    Started(Box<StartedJob>),
    Allocation(Box<Allocation>),
    /// As many as fit into one answer; none when there are no older ones.
    Audit(Vec<Audited>),
    Standing(Box<CoordinatorStanding>),
    /// It will be so, whichever coordinator leads.
    Steered {
        generation: Generation,
        how: Steering,
    },
    Lanes(Lanes),
    /// What it is, or is from now on.
    ClusterVersion {
        minor: u16,
        /// An operator has lowered it to that, and no leader raises it by itself.
        lowered_by: Option<String>,
    },
    DenyLists(DeniedCoordinators),
}
