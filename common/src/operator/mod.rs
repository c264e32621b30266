//! What an operator asks, and what the coordinator answers. Answers name nodes and links, where
//! the values of the pipeline hold ids.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::circuit::{CircuitSet, OpticalName};
use crate::member::{Digest, Member, Role};
use crate::plan::Generation;

mod audit;
mod discovered;
mod finding;
mod history;
mod imbalance;
mod job;
mod line;
mod matrix;
mod membership;
mod no_way_back;
mod order;
mod place;
mod plan;
mod resolve;
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
pub use line::{Joint, Line, Tag, What};
pub use matrix::{Matrix, MatrixCell};
pub use membership::{
    About, CoordinatorStanding, CoordinatorState, CoordinatorStatus, MemberOrder, OpenInvitation,
    RefusedPeer,
};
pub use no_way_back::NoWayBack;
pub use order::{Allocation, JobOrder, JobPhase, RegisteredJob, StartedJob};
pub use place::{Hop, hops};
pub use plan::{
    Alternative, Base, Course, Iteration, Move, Pin, Plan, Prediction, Report, TouchedJob, Via,
    Wave,
};
pub use resolve::{Unknown, links_named};
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
        lasting: Duration,
    },
    /// Shut this member out: its sessions end, and its certificates are worth nothing.
    Revoke {
        member: Member,
    },
    /// Certify a new key for whoever asks. The core never sees it.
    Renew {
        request: Vec<u8>,
    },
    /// Who the coordinators are.
    Coordinators,
    /// Change that.
    ChangeMembers(MemberOrder),
    /// Whoever has the secret of this digest may ask in the name of whoever asks this, over HTTP.
    Visit {
        token: Digest,
        lasting: Duration,
    },
    /// In whose name is asked.
    WhoAmI,
    /// What hosts measured of the way to each other: so many pairs at most, the worst of them. An answer
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
    /// The bandwidth between hosts beside that of their peers: so many pairs at most, the slowest of them.
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
    /// Which way these flows go, as it was traced last; `anew` has agents trace them for a while.
    Trace {
        between: Between,
        anew: bool,
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
    /// Carry it out at once, whatever hours there are for changes; anyway as with [`Request::ApplyAnyway`].
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
    /// The jobs that orchestrators have told of.
    Registered,
    /// Whether these hosts are good for a job, and in which order: as `job` was told it, where that is registered.
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
    /// How the coordinator that is asked stands, whoever leads, and also where nobody does.
    Standing,
    /// What becomes of a plan that is on its way.
    Steer {
        generation: Generation,
        how: Steering,
    },
}

/// How a plan is carried out that somebody approves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Approval {
    /// It is kept though flows become slower.
    pub force: bool,
    /// Hours for changes do not count.
    pub now: bool,
}

impl Approval {
    /// What is asked for it by whoever has seen this.
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
            | Self::Trace { anew: false, .. }
            | Self::Imbalance
            | Self::Discover { .. }
            | Self::Jobs
            | Self::Registered
            | Self::Gate { .. }
            | Self::Standing
            | Self::Renew { .. } => matches!(role, Role::Operator | Role::Viewer),
            Self::Plan
            | Self::Trace { anew: true, .. }
            | Self::Rewire { .. }
            | Self::Drain { .. }
            | Self::Weigh { .. }
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
            | Self::Renew { .. } => false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Response {
    Status(Box<Status>),
    Findings(Findings),
    /// Nothing when there is nothing to mend, or no way to mend it, as far as can be seen.
    Plan {
        plan: Option<Box<Plan>>,
        not_seen: NotSeen,
    },
    ApplyStarted {
        generation: Generation,
    },
    /// The newest first, as many as fit into one answer; none when there are no older ones.
    History(Vec<Record>),
    /// Nothing when it is not known any more.
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
    /// All of them, or the one that was told of; none when that one is over.
    Registered(Vec<RegisteredJob>),
    Started(Box<StartedJob>),
    Allocation(Box<Allocation>),
    /// As many as fit into one answer; none when there are no older ones.
    Audit(Vec<Audited>),
    Standing(Box<CoordinatorStanding>),
    /// It will be so, whoever leads.
    Steered {
        generation: Generation,
        how: Steering,
    },
}

/// Why a request led to nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refused {
    /// Certificates of this role may not ask this.
    NotAllowed { role: String },
    /// Nobody has asked for a plan, or it has been carried out.
    NoPlan,
    /// The plan that would be carried out is another one.
    OtherPlan { offered: Vec<Generation> },
    /// The fabric has no optical switch of this name.
    NoSuchSwitch { name: String },
    /// The fabric has no host of this name.
    NoSuchHost { name: String },
    /// What was measured contradicts itself or the fabric.
    Contradicted { why: String },
    /// The circuits or routes that are wanted are there.
    NothingToChange,
    /// One change at a time.
    Busy { running: Generation },
    /// It touches so many of all flows of jobs, in percent.
    TooWide {
        touched_percent: u64,
        most_percent: u64,
    },
    /// Things are not as the plan needs them, or the judge of plans says no.
    Unfit { reasons: Vec<String> },
    /// Nobody of this name can be a member.
    NoSuchMember { member: Member },
    /// A token is good for less.
    TooLong { longest_s: u64 },
    /// So many tokens are out.
    TooManyTokens { most: usize },
    /// So many are shut out, and none is ever forgotten.
    TooManyShutOut { most: usize },
    /// Whoever asks would shut itself out, and perhaps nobody would be left who may.
    Oneself,
    /// This coordinator cannot sign certificates.
    CannotSign { why: String },
    /// Another coordinator does; there, if that is known.
    NotLeading { leader: Option<SocketAddr> },
    /// The coordinators stay who they are.
    Membership { why: String },
    /// Nobody may ask with this token, or not any more.
    NoVisitor,
    /// A token that was made for HTTP makes no others, and is good for less than this.
    NoVisit { longest_s: u64 },
    /// So many tokens for HTTP are out.
    TooManyVisitors { most: usize },
    /// The log has no room for it, at the coordinator that leads or at too many others.
    DiskFull,
    /// The fabric has no link, node or optical switch of this name.
    NoSuchLink { name: String },
    /// Without these links one node would not reach another as directly as now, or not at all.
    CutOff { from: String, to: String },
    /// It is reached by several addresses, and nobody said by which.
    WhichAddress { host: String, has: Vec<Ipv4Addr> },
    /// The change stays, for that reason.
    NoWayBack(NoWayBack),
    /// No routes that are told to anybody lead around this link.
    NotAround { link: String },
    /// The fabric has no node or optical switch of this name.
    NotToMaintain { name: String },
    /// Nobody has begun to work on it.
    NotUnderMaintenance { name: String },
    /// This host exchanges nothing large now.
    NoJob { host: String },
    /// Changes are made at other hours.
    OutOfHours { hours: String, opens_in_s: u64 },
    /// It is not proven that nothing passes it.
    NotEmpty { reasons: Vec<String> },
    /// Another job is registered under this name.
    OtherJob {
        job: String,
        has: Vec<String>,
        wanted: Vec<String>,
    },
    /// Nobody has told of a job of this name, or it is over.
    NotRegistered { job: String },
    /// So many jobs are registered.
    TooManyJobs { most: usize },
    /// No job is called so, or works on such hosts.
    NoSuchJob { why: String },
    /// What is shown of the plan is not what whoever approves it has seen.
    ChangedMeanwhile { generation: Generation },
    /// Nothing of it is being done.
    NotUnderWay { generation: Generation },
    /// It goes on by itself.
    NotStopped { generation: Generation },
    /// It was given up before.
    GoesBack { generation: Generation },
    /// Circuits are as they should be, as far as traffic shows.
    NoBetterCircuits { why: String },
}

const DISK_FULL: &str = "the disk is full: nothing is decided until there is room again where the \
                         coordinators keep their data";
const NO_VISITOR: &str =
    "nobody may ask with this token, or not any more; `reweave dashboard` makes another";
const NOBODY_LEADS: &str = "no coordinator leads now; ask again when most of them are there and \
                            reach each other";

const SHUT_OUT: &str = "members are shut out, which is all that are remembered; found the cluster anew with \
                        `reweave cluster init`";
const NO_JOB: &str =
    "works for no job now, as far as traffic shows; name all hosts of the one that is meant";
const NOT_AROUND: &str = "nobody can be told to lead packets around";

fn too_wide(f: &mut fmt::Formatter<'_>, touched: u64, most: u64) -> fmt::Result {
    write!(
        f,
        "the plan touches {touched} % of the flows of jobs, and the policy lets it touch {most} %; look at them, \
         and insist with --force"
    )
}

fn other_plan(f: &mut fmt::Formatter<'_>, offered: &[Generation]) -> fmt::Result {
    if let [offered] = offered {
        return write!(
            f,
            "the plan on offer makes generation {offered}; look at it with `reweave plan` and apply that"
        );
    }
    let numbers: Vec<_> = offered.iter().map(ToString::to_string).collect();
    write!(
        f,
        "the plans on offer make generations {}; look at them with `reweave history`, and apply one by its \
         number",
        numbers.join(" and ")
    )
}

fn out_of_hours(f: &mut fmt::Formatter<'_>, hours: &str, opens_in_s: u64) -> fmt::Result {
    let minutes = opens_in_s.div_ceil(60);
    write!(
        f,
        "changes are made {hours} (UTC) alone, which is in {minutes} min; --now makes this one at once"
    )
}

fn changed_meanwhile(f: &mut fmt::Formatter<'_>, generation: Generation) -> fmt::Result {
    write!(
        f,
        "what plan {generation} does or whom it touches has changed since you looked: look again"
    )
}

fn not_empty(f: &mut fmt::Formatter<'_>, reasons: &[String]) -> fmt::Result {
    write!(f, "it may still carry something: {}", reasons.join("; "))
}

fn other_job(f: &mut fmt::Formatter<'_>, job: &str, [has, wanted]: [&[String]; 2]) -> fmt::Result {
    write!(
        f,
        "{job} is registered on {}, not on {}; end that one first, or take another name",
        has.join(", "),
        wanted.join(", ")
    )
}

fn no_such(f: &mut fmt::Formatter<'_>, what: &str, name: &str) -> fmt::Result {
    write!(f, "the fabric has no {what} called {name:?}")
}

fn no_such_host(f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
    no_such(f, "host", name)?;
    f.write_str("; `reweave hosts` lists them")
}

fn cut_off(f: &mut fmt::Formatter<'_>, [from, to]: [&String; 2]) -> fmt::Result {
    write!(
        f,
        "without these links {from} has no way to {to} that is as short as now"
    )
}

fn which_address(f: &mut fmt::Formatter<'_>, host: &str, has: &[Ipv4Addr]) -> fmt::Result {
    match has {
        [] => write!(f, "no address of {host} is known: its agent is not there"),
        has => {
            let has: Vec<_> = has.iter().map(Ipv4Addr::to_string).collect();
            let all = has.join(", ");
            write!(
                f,
                "{host} has several addresses, name one in its place: {all}"
            )
        }
    }
}

fn no_visit(f: &mut fmt::Formatter<'_>, longest_s: u64) -> fmt::Result {
    let hours = longest_s / 3600;
    write!(
        f,
        "a token for the dashboard is good for a minute to {hours} hours, and makes no others"
    )
}

impl Refused {
    fn of_jobs(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherJob { job, has, wanted } => other_job(f, job, [has, wanted]),
            Self::NotRegistered { job } => write!(f, "no job {job} is registered"),
            Self::TooManyJobs { most } => {
                write!(f, "{most} jobs are registered, which is the most")
            }
            Self::NoSuchJob { why } => f.write_str(why),
            // All others are not of jobs.
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAllowed { role } => write!(
                f,
                "a certificate of role {role} may not ask this; use an operator's"
            ),
            Self::ChangedMeanwhile { generation } => changed_meanwhile(f, *generation),
            Self::NoPlan => f.write_str("there is no plan to apply; make one with `reweave plan`"),
            Self::OtherPlan { offered } => other_plan(f, offered),
            Self::NoSuchSwitch { name } => no_such(f, "optical switch", name),
            Self::NoSuchLink { name } => no_such(f, "link or switch", name),
            Self::NotToMaintain { name } => no_such(f, "switch", name),
            Self::NotUnderMaintenance { name } => write!(f, "{name} is not under maintenance"),
            Self::NotEmpty { reasons } => not_empty(f, reasons),
            Self::OtherJob { .. }
            | Self::NotRegistered { .. }
            | Self::TooManyJobs { .. }
            | Self::NoSuchJob { .. } => self.of_jobs(f),
            Self::NoBetterCircuits { why } => write!(f, "no circuits are worth moving: {why}"),
            Self::NotUnderWay { .. }
            | Self::NotStopped { .. }
            | Self::GoesBack { .. }
            | Self::TooWide { .. } => self.of_plans(f),
            Self::NoJob { host } => write!(f, "{host} {NO_JOB}"),
            Self::OutOfHours { hours, opens_in_s } => out_of_hours(f, hours, *opens_in_s),
            Self::NotAround { link } => write!(f, "{NOT_AROUND} {link}"),
            Self::CutOff { from, to } => cut_off(f, [from, to]),
            Self::NoSuchHost { name } => no_such_host(f, name),
            Self::NoWayBack(why) => why.fmt(f),
            Self::WhichAddress { host, has } => which_address(f, host, has),
            Self::Contradicted { why } => write!(f, "what was measured cannot be: {why}"),
            Self::NothingToChange => f.write_str("everything is so already"),
            Self::Busy { running } => write!(
                f,
                "the change to generation {running} is still running, and has some of the same in hand; \
                 follow it with `reweave status`"
            ),
            Self::Unfit { reasons } => {
                write!(f, "the plan cannot be applied: {}", reasons.join("; "))
            }
            Self::NoSuchMember { member } => match member.role {
                Role::Agent => write!(f, "the fabric has no node called {:?}", member.name),
                _ => write!(f, "nobody can be called {:?}", member.name),
            },
            Self::TooLong { longest_s } => {
                write!(f, "a token is good for {} minutes at most", longest_s / 60)
            }
            Self::TooManyTokens { most } => write!(
                f,
                "{most} tokens are out and not used; wait until some have expired"
            ),
            Self::TooManyShutOut { most } => write!(f, "{most} {SHUT_OUT}"),
            Self::Oneself => f.write_str("nobody shuts itself out: have another operator do it"),
            Self::CannotSign { why } => {
                write!(f, "this coordinator cannot sign certificates: {why}")
            }
            Self::NoVisitor => f.write_str(NO_VISITOR),
            Self::NoVisit { longest_s } => no_visit(f, *longest_s),
            Self::TooManyVisitors { most } => write!(
                f,
                "{most} tokens for the dashboard are out; wait until some have expired"
            ),
            Self::DiskFull => f.write_str(DISK_FULL),
            Self::Membership { why } => write!(f, "the coordinators stay who they are: {why}"),
            Self::NotLeading {
                leader: Some(leader),
            } => write!(f, "another coordinator leads, at {leader}; ask there"),
            Self::NotLeading { leader: None } => f.write_str(NOBODY_LEADS),
        }
    }
}
