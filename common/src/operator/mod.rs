//! Requests of operators, and the coordinator's answers. Answers have names of nodes and links instead of ids.

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
mod nics;
mod order;
mod place;
mod plan;
mod policy;
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
pub use nics::{NicStatus, PairTraffic, PairTraffics};
pub use order::{Allocation, JobOrder, JobPhase, RegisteredJob, StartedJob};
pub use place::{Hop, hops};
pub use plan::{
    Alternative, BEHIND_PREFIX, Base, BaseInputs, Iteration, Move, NamedMigration, Pin, Plan,
    Prediction, Report, TouchedJob, Via, Wave,
};
pub use policy::{PolicySetting, PolicyStatus, SettingChange, SettingSource};
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
    /// Makes a plan that sets these circuits, with routes for them. Other optical switches stay unchanged. Without a
    /// switch, the plan has circuits that suit the current traffic.
    Rewire {
        circuits: BTreeMap<OpticalName, CircuitSet>,
    },
    /// Applies the plan of exactly this generation.
    Apply {
        generation: Generation,
    },
    /// Returns the newest records, or those older than this generation.
    History {
        before: Option<Generation>,
    },
    /// Returns the record of one plan.
    Record {
        generation: Generation,
    },
    /// Admits this member once, with the token of this digest.
    Invite {
        member: Member,
        token: Digest,
        lasting: TimeSpan,
    },
    /// Revokes this member: its sessions end, and its certificates become invalid.
    Revoke {
        member: Member,
    },
    /// Certifies a new key for the requester. The core never sees it.
    Renew {
        request: Vec<u8>,
    },
    /// Returns the coordinators.
    Coordinators,
    /// Changes the coordinators.
    ChangeMembers(MemberOrder),
    /// Permits requests over HTTP in the requester's name with the secret of this digest.
    Visit {
        token: Digest,
        lasting: TimeSpan,
    },
    /// Returns the requester.
    WhoAmI,
    /// Returns measurements between hosts: the worst pairs, at most this number. An answer over a session must fit into
    /// one message.
    Matrix {
        most: u32,
    },
    /// Explains why a job is slow: the job registered by this name, the job of the host of this name, or the job of the
    /// named hosts.
    Explain {
        job: String,
        hosts: Vec<String>,
    },
    /// Returns the bandwidth between hosts compared with their peers: the slowest pairs, at most this number.
    Pairs {
        most: u32,
    },
    /// Makes a plan that drains these links, all links of these switches, and all links through these optical switches,
    /// and ends all other drains.
    Drain {
        links: Vec<String>,
    },
    /// Makes a plan that weights equal-cost paths by their capacity, or equally.
    Weigh {
        by_worth: bool,
    },
    /// Applies the plan as with [`Request::Apply`], and keeps it even if flows become slower.
    ApplyAnyway {
        generation: Generation,
    },
    /// Returns the last traced paths of these flows; `refresh` starts new traces.
    Trace {
        between: Between,
        refresh: bool,
    },
    /// Returns the flow imbalance per layer.
    Imbalance,
    /// Makes a plan that restores the state before this change, or before the last that was kept.
    TakeBack {
        generation: Option<Generation>,
    },
    /// Returns the fabric as agents see it, with its links from this one on.
    Discover {
        from_link: u32,
    },
    /// Returns the jobs that traffic shows.
    Jobs,
    /// Applies the plan now, outside the change windows; with `anyway` as with [`Request::ApplyAnyway`].
    ApplyNow {
        generation: Generation,
        anyway: bool,
    },
    /// Freezes the present job of this host, or the job of these hosts: no plan may touch a link that its flows use.
    Freeze {
        hosts: Vec<String>,
    },
    /// Ends a freeze.
    Thaw {
        hosts: Vec<String>,
    },
    /// Moves maintenance of a switch or an optical switch to this stage, or ends it. If routes have to change, the
    /// answer has a plan.
    Maintain {
        name: String,
        stage: Option<MaintenanceStage>,
    },
    /// An orchestrator's request about one job.
    Job {
        job: String,
        order: JobOrder,
    },
    /// Returns the registered jobs.
    Registered,
    /// Checks whether hosts are fit for a job, and returns their order: the registered one, if `job` is registered on
    /// them.
    Gate {
        hosts: Vec<String>,
        job: Option<String>,
    },
    /// Applies the plan if it still has one of these seals.
    ApplySealed {
        generation: Generation,
        anyway: bool,
        now: bool,
        seals: Vec<String>,
    },
    /// Returns the audit log, newest first, with entries before this number.
    Audit {
        before: Option<u64>,
    },
    /// Returns the state of the addressed coordinator itself, with or without a leader.
    Standing,
    /// Holds, resumes or aborts a plan.
    Steer {
        generation: Generation,
        how: Steering,
    },
    /// Returns the RDMA devices and paths of the ranks on these hosts, in this order.
    Lanes {
        hosts: Vec<String>,
    },
    /// Makes a plan for a better rank order of this registered job at its next start.
    Reorder {
        job: String,
    },
    /// Returns or sets the cluster version: the minor version whose entries all coordinators read.
    ClusterVersion {
        minor: Option<u16>,
    },
    /// Returns the deny lists for certificates of coordinators, as far as the addressed one has applied the log.
    DenyLists,
    /// Returns the policy in force.
    Policy,
    /// Sets these keys of the policy to TOML values, or returns them to the values of the leader's file. Refused if the
    /// policy has another revision than `expected`.
    PolicySet {
        settings: BTreeMap<String, Option<String>>,
        expected: Option<u64>,
    },
    /// Returns the NICs from this number on, at most this many. An answer over a session must fit into one message.
    Nics {
        from_nic: u32,
        most: u32,
    },
    /// Returns the training traffic between hosts, of one rail or all: the pairs with the highest rate, at most this
    /// number.
    Traffic {
        rail: Option<u16>,
        most: u32,
    },
    /// Returns measurements between hosts as with [`Request::Matrix`], of the NICs of one rail.
    RailMatrix {
        rail: u16,
        most: u32,
    },
    /// Takes over the maintenance of a switch or an optical switch, at the stage that it has, from the operator who has
    /// it. Only then may the requester change its stage.
    TakeOver {
        name: String,
    },
}

/// How an approved plan is applied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Approval {
    /// Keep it even if flows become slower.
    pub force: bool,
    /// Ignore the change windows.
    pub now: bool,
}

impl Approval {
    /// Returns the approval of a plan that was shown with one of these seals.
    pub fn of_sealed(self, generation: Generation, seals: Vec<String>) -> Request {
        Request::ApplySealed {
            generation,
            anyway: self.force,
            now: self.now,
            seals,
        }
    }

    /// Returns the approval of a plan.
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
    /// Whether a certificate of this role permits the request.
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
            | Self::Policy
            | Self::Nics { .. }
            | Self::Traffic { .. }
            | Self::RailMatrix { .. }
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
            | Self::TakeOver { .. }
            | Self::Job { .. }
            | Self::Invite { .. }
            | Self::Revoke { .. }
            | Self::Audit { .. }
            | Self::ClusterVersion { minor: Some(_) }
            | Self::PolicySet { .. }
            | Self::ChangeMembers(_) => role == Role::Operator,
        }
    }

    /// Whether the request writes an entry to the log.
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
            | Self::TakeOver { .. }
            | Self::Job { .. }
            | Self::Invite { .. }
            | Self::Revoke { .. }
            | Self::ChangeMembers(_)
            | Self::ClusterVersion { minor: Some(_) }
            | Self::PolicySet { .. }
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
            | Self::Policy
            | Self::Nics { .. }
            | Self::Traffic { .. }
            | Self::RailMatrix { .. }
            | Self::Renew { .. } => false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Response {
    Status(Box<Status>),
    Findings(Findings),
    /// A plan; none if there is nothing to repair, or no way to repair it.
    Plan {
        plan: Option<Box<Plan>>,
        not_seen: NotSeen,
    },
    ApplyStarted {
        generation: Generation,
    },
    /// Records, newest first, as many as fit into one answer; none if there are no older ones.
    History(Vec<Record>),
    /// None if the record is no longer stored.
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
    /// The coordinators, after the change if one was requested.
    Coordinators(Vec<CoordinatorStatus>),
    MayVisit {
        expires_in_ms: u64,
        /// HTTP address of the leader's page, as that machine sees it; none if it serves none.
        http: Option<SocketAddr>,
        /// HTTPS address of the page, which other machines can also reach.
        https: Option<SocketAddr>,
    },
    You(Member),
    Matrix(Matrix),
    /// None if traffic shows no such job.
    Explanation(Option<Box<Explanation>>),
    Pairs(MeasuredPairs),
    /// As many as fit into one answer.
    Traced(Vec<TracedFlow>),
    Imbalances(Imbalances),
    Discovered(Discovered),
    /// Jobs with the highest rate first; not all of a large cluster.
    Jobs(Vec<JobStatus>),
    /// Hosts of the job that was frozen or thawed.
    Froze {
        hosts: Vec<String>,
    },
    /// All registered jobs, or the job of the request. After its end that is the job as it was; none if no such job was
    /// registered.
    Registered(Vec<RegisteredJob>),
    Started(Box<StartedJob>),
    Allocation(Box<Allocation>),
    /// Entries, as many as fit into one answer; none if there are no older ones.
    Audit(Vec<Audited>),
    Standing(Box<CoordinatorStanding>),
    /// The decision is in the log, and survives a leader change.
    Steered {
        generation: Generation,
        how: Steering,
    },
    Lanes(Lanes),
    /// The cluster version, or the new one.
    ClusterVersion {
        minor: u16,
        /// Operator who lowered the version to that value. No leader raises it by itself.
        lowered_by: Option<String>,
    },
    DenyLists(DeniedCoordinators),
    /// The policy in force, after the change if one was requested.
    Policy(PolicyStatus),
    /// In the order of the fabric.
    Nics(Vec<NicStatus>),
    Traffic(PairTraffics),
}
