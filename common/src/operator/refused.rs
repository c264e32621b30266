//! Reasons why a request is refused.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};

use serde::{Deserialize, Serialize};

use super::{MaintenanceStage, RollbackRefused};
use crate::member::{Member, Role};
use crate::plan::Generation;

/// Reason why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refused {
    /// The role of the certificate does not permit the request.
    NotAllowed { role: String },
    /// No plan was requested, or it has been applied.
    NoPlan,
    /// Another plan is offered.
    OtherPlan { offered: Vec<Generation> },
    /// The fabric has no optical switch of this name.
    NoSuchSwitch { name: String },
    /// The fabric has no host of this name.
    NoSuchHost { name: String },
    /// Measurements contradict each other or the fabric.
    Contradicted { why: String },
    /// The requested circuits or routes are already in force.
    NothingToChange,
    /// Another change is running.
    Busy { running: Generation },
    /// The plan affects too many flows: share of all jobs' flows, in percent.
    TooWide {
        touched_percent: u64,
        most_percent: u64,
    },
    /// A precondition of the plan is not met, or the plan check failed.
    Unfit { reasons: Vec<String> },
    /// No member can have this name.
    NoSuchMember { member: Member },
    /// The requested lifetime of the token is too long.
    TooLong { longest_s: u64 },
    /// The maximum number of unused tokens exists.
    TooManyTokens { most: usize },
    /// The maximum number of members is revoked; revocations are kept forever.
    #[serde(rename = "too-many-shut-out")]
    TooManyRevoked { most: usize },
    /// The requester would revoke itself, and perhaps leave no operator.
    Oneself,
    /// This coordinator cannot sign certificates.
    CannotSign { why: String },
    /// Another coordinator leads; its address, if known.
    NotLeading { leader: Option<SocketAddr> },
    /// The change of coordinators is refused.
    Membership { why: String },
    /// The token is invalid or expired.
    NoVisitor,
    /// An HTTP token cannot create HTTP tokens, and the lifetime of one is limited.
    NoVisit { longest_s: u64 },
    /// The maximum number of HTTP tokens is in use.
    TooManyVisitors { most: usize },
    /// The leader, or too many other coordinators, have no disk space for the log.
    DiskFull,
    /// The fabric has no link, node or optical switch of this name.
    NoSuchLink { name: String },
    /// Without these links, one node could not reach another, or only over a longer path.
    CutOff { from: String, to: String },
    /// The host has several addresses, and none was selected.
    WhichAddress { host: String, has: Vec<Ipv4Addr> },
    /// The change cannot be rolled back.
    NoWayBack(RollbackRefused),
    /// No routes lead around this link.
    NotAround { link: String },
    /// The fabric has no node or optical switch of this name.
    NotToMaintain { name: String },
    /// The node is not under maintenance.
    NotUnderMaintenance { name: String },
    /// The host exchanges no large flows now.
    NoJob { host: String },
    /// The change windows are closed.
    OutOfHours { hours: String, opens_in_s: u64 },
    /// It is not proven that the switch is idle.
    NotEmpty { reasons: Vec<String> },
    /// Another job is registered under this name.
    OtherJob {
        job: String,
        has: Vec<String>,
        wanted: Vec<String>,
    },
    /// No job of this name is registered, or it has ended.
    NotRegistered { job: String },
    /// The maximum number of jobs is registered.
    TooManyJobs { most: usize },
    /// No job has this name or such hosts.
    NoSuchJob { why: String },
    /// The plan has changed since its approver saw it.
    ChangedMeanwhile { generation: Generation },
    /// No change of this generation is in progress.
    NotUnderWay { generation: Generation },
    /// The change is not paused.
    NotStopped { generation: Generation },
    /// The change was aborted before.
    GoesBack { generation: Generation },
    /// No better circuits are known for the current traffic.
    NoBetterCircuits { why: String },
    /// Reordering was never requested for this job.
    NotReordered { job: String },
    /// No other rank order is clearly better.
    NoBetterOrder {
        job: String,
        least_gain_percent: u64,
    },
    /// Not every coordinator could read the decision: required minor version, and cluster version.
    ClusterVersionTooLow { needed: u16, has: u16 },
    /// The cluster version cannot be set to that value now.
    VersionStays { why: String },
    /// The policy cannot have this setting.
    BadSetting { key: String, problem: String },
    /// The policy has another revision than the request names. The author of the last change, empty if there was none,
    /// and its key that the request names too, or else its first.
    PolicyChanged {
        revision: u64,
        key: Option<String>,
        by: String,
        age_s: u64,
    },
    /// Plans in progress were checked and are timed by this setting.
    SettingInUse { key: String, generation: Generation },
    /// An operator has the node under maintenance, at this stage for this time: another one, or the same one whose
    /// command may still run.
    UnderMaintenance {
        name: String,
        by: String,
        stage: MaintenanceStage,
        age_s: u64,
    },
}

const DISK_FULL_REASON: &str = "the disk is full: no decisions until the data folders of the \
                         coordinators have free space";
const NO_VISITOR_REASON: &str =
    "this token is unknown or has expired; `reweave dashboard` makes a new one";
const NO_LEADER_REASON: &str = "no leader now; retry once a majority of the coordinators is \
                            running and connected";

const REVOCATIONS_FULL_REASON: &str = "members are revoked, the maximum; create a new cluster \
                        with `reweave cluster init`";
const NO_JOB_REASON: &str = "has no job now, by its traffic; name all hosts of the job";
const NOT_REORDERED_REASON: &str = "has no rank order: register it with --reorder, or start it";
const NO_DETOUR_REASON: &str = "no node can reroute packets around it";

fn not_leading(f: &mut fmt::Formatter<'_>, leader: Option<SocketAddr>) -> fmt::Result {
    match leader {
        Some(leader) => write!(f, "another coordinator leads; connect to {leader}"),
        None => f.write_str(NO_LEADER_REASON),
    }
}

fn busy(f: &mut fmt::Formatter<'_>, running: Generation) -> fmt::Result {
    write!(
        f,
        "the change to generation {running} is still running and holds some of the same \
         resources; follow it with `reweave status`"
    )
}

fn too_wide(f: &mut fmt::Formatter<'_>, touched: u64, most: u64) -> fmt::Result {
    write!(
        f,
        "the plan touches {touched} % of job flows, more than the {most} % that the policy \
         allows; review them, and use --force to apply it"
    )
}

fn other_plan(f: &mut fmt::Formatter<'_>, offered: &[Generation]) -> fmt::Result {
    if let [offered] = offered {
        return write!(
            f,
            "the plan on offer makes generation {offered}; review it with `reweave plan show \
             {offered}`, then apply it"
        );
    }
    let numbers: Vec<_> = offered.iter().map(ToString::to_string).collect();
    write!(
        f,
        "the plans on offer make generations {}; list them with `reweave history`, then apply one \
         by its number",
        numbers.join(" and ")
    )
}

fn out_of_hours(f: &mut fmt::Formatter<'_>, hours: &str, opens_in_s: u64) -> fmt::Result {
    let minutes = opens_in_s.div_ceil(60);
    write!(
        f,
        "change windows are {hours} (UTC), the next in {minutes} min; --now applies it at once"
    )
}

fn version_too_low(f: &mut fmt::Formatter<'_>, needed: u16, has: u16) -> fmt::Result {
    write!(
        f,
        "this needs cluster version 1.{needed}, but the cluster is at 1.{has}: upgrade every \
         coordinator (`reweave version` shows their versions); if an operator has lowered it, \
         `reweave cluster version 1.{needed}` raises it again"
    )
}

fn changed_meanwhile(f: &mut fmt::Formatter<'_>, generation: Generation) -> fmt::Result {
    write!(
        f,
        "the changes of plan {generation} or the jobs it touches have changed since you reviewed \
         it: review it again"
    )
}

fn not_empty(f: &mut fmt::Formatter<'_>, reasons: &[String]) -> fmt::Result {
    write!(f, "it may still carry traffic: {}", reasons.join("; "))
}

fn other_job(f: &mut fmt::Formatter<'_>, job: &str, [has, wanted]: [&[String]; 2]) -> fmt::Result {
    write!(
        f,
        "{job} is registered on {}, not on {}; end that job first, or use another name",
        has.join(", "),
        wanted.join(", ")
    )
}

fn no_such(f: &mut fmt::Formatter<'_>, what: &str, name: &str) -> fmt::Result {
    write!(f, "the fabric has no {what} named {name:?}")
}

fn not_to_maintain(f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
    no_such(f, "switch", name)?;
    f.write_str(", and hosts cannot be put under maintenance")
}

fn no_such_host(f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
    no_such(f, "host", name)?;
    f.write_str("; `reweave hosts` lists them")
}

fn cut_off(f: &mut fmt::Formatter<'_>, [from, to]: [&String; 2]) -> fmt::Result {
    write!(
        f,
        "without these links {from} has no equally short path to {to}"
    )
}

fn which_address(f: &mut fmt::Formatter<'_>, host: &str, has: &[Ipv4Addr]) -> fmt::Result {
    match has {
        [] => write!(f, "no address of {host} is known: its agent is down"),
        has => {
            let has: Vec<_> = has.iter().map(Ipv4Addr::to_string).collect();
            let all = has.join(", ");
            write!(f, "{host} has several addresses, use one of them: {all}")
        }
    }
}

fn no_visit(f: &mut fmt::Formatter<'_>, longest_s: u64) -> fmt::Result {
    let hours = longest_s / 3600;
    write!(
        f,
        "a dashboard token is valid for 1 minute to {hours} hours and cannot create others"
    )
}

fn no_such_member(f: &mut fmt::Formatter<'_>, member: &Member) -> fmt::Result {
    match member.role {
        Role::Agent => write!(f, "the fabric has no node named {:?}", member.name),
        _ => write!(f, "{:?} is not a valid member name", member.name),
    }
}

fn not_under_way(f: &mut fmt::Formatter<'_>, generation: Generation) -> fmt::Result {
    write!(
        f,
        "plan {generation} is not in progress; `reweave status` lists plans in progress, `reweave \
         rollback` reverts a kept one"
    )
}

impl Refused {
    fn of_jobs(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OtherJob { job, has, wanted } => other_job(f, job, [has, wanted]),
            Self::NotRegistered { job } => write!(f, "no job {job} is registered"),
            Self::TooManyJobs { most } => {
                write!(f, "{most} jobs are registered, the maximum")
            }
            Self::NoSuchJob { why } => f.write_str(why),
            Self::NotReordered { job } => write!(f, "{job} {NOT_REORDERED_REASON}"),
            Self::NoBetterOrder {
                job,
                least_gain_percent,
            } => write!(
                f,
                "no rank order of {job} is better by {least_gain_percent} % or more"
            ),
            // Other requests are not about jobs.
            _ => Ok(()),
        }
    }

    fn of_maintenance(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotToMaintain { name } => not_to_maintain(f, name),
            Self::NotUnderMaintenance { name } => write!(f, "{name} is not under maintenance"),
            Self::NotEmpty { reasons } => not_empty(f, reasons),
            Self::UnderMaintenance {
                name,
                by,
                stage,
                age_s,
            } => {
                let stage = stage.as_str();
                write!(
                    f,
                    "{by} has {name} under maintenance, {stage} for {age_s} s: wait until that ends, or \
                     use --take-over"
                )
            }
            // Other requests are not about maintenance.
            _ => Ok(()),
        }
    }

    fn of_plans(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooWide {
                touched_percent,
                most_percent,
            } => too_wide(f, *touched_percent, *most_percent),
            Self::NotUnderWay { generation } => not_under_way(f, *generation),
            Self::NotStopped { generation } => {
                write!(f, "plan {generation} is not held: it continues by itself")
            }
            Self::GoesBack { generation } => {
                write!(f, "plan {generation} is being rolled back already")
            }
            // Other requests are not about plans.
            _ => Ok(()),
        }
    }

    fn of_policy(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadSetting { key, problem } => write!(f, "{key}: {problem}"),
            Self::PolicyChanged { revision, by, .. } if by.is_empty() => {
                write!(
                    f,
                    "the policy has revision {revision}: look again and repeat"
                )
            }
            Self::PolicyChanged { key, by, age_s, .. } => {
                write!(f, "{by} changed the policy {age_s} s ago")?;
                if let Some(key) = key {
                    write!(f, " ({key})")?;
                }
                f.write_str(": look again and repeat")
            }
            Self::SettingInUse { key, generation } => {
                write!(
                    f,
                    "{key}: plan {generation} is under way; wait until it ends, or roll it back \
                     with `reweave abort {generation}`"
                )
            }
            // Other requests are not about the policy.
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAllowed { role } => write!(
                f,
                "a certificate of role {role} is not allowed to do this; use an operator's"
            ),
            Self::ChangedMeanwhile { generation } => changed_meanwhile(f, *generation),
            Self::NoPlan => f.write_str("no plan to apply; make one with `reweave plan`"),
            Self::OtherPlan { offered } => other_plan(f, offered),
            Self::NoSuchSwitch { name } => no_such(f, "optical switch", name),
            Self::NoSuchLink { name } => no_such(f, "link or switch", name),
            Self::NotToMaintain { .. }
            | Self::NotUnderMaintenance { .. }
            | Self::NotEmpty { .. }
            | Self::UnderMaintenance { .. } => self.of_maintenance(f),
            Self::OtherJob { .. }
            | Self::NotRegistered { .. }
            | Self::TooManyJobs { .. }
            | Self::NoSuchJob { .. }
            | Self::NotReordered { .. }
            | Self::NoBetterOrder { .. } => self.of_jobs(f),
            Self::ClusterVersionTooLow { needed, has } => version_too_low(f, *needed, *has),
            Self::VersionStays { why } => write!(f, "the cluster version is unchanged: {why}"),
            Self::BadSetting { .. } | Self::PolicyChanged { .. } | Self::SettingInUse { .. } => {
                self.of_policy(f)
            }
            Self::NoBetterCircuits { why } => write!(f, "no circuits are worth moving: {why}"),
            Self::NotUnderWay { .. }
            | Self::NotStopped { .. }
            | Self::GoesBack { .. }
            | Self::TooWide { .. } => self.of_plans(f),
            Self::NoJob { host } => write!(f, "{host} {NO_JOB_REASON}"),
            Self::OutOfHours { hours, opens_in_s } => out_of_hours(f, hours, *opens_in_s),
            Self::NotAround { link } => write!(f, "{NO_DETOUR_REASON} {link}"),
            Self::CutOff { from, to } => cut_off(f, [from, to]),
            Self::NoSuchHost { name } => no_such_host(f, name),
            Self::NoWayBack(why) => why.fmt(f),
            Self::WhichAddress { host, has } => which_address(f, host, has),
            Self::Contradicted { why } => write!(f, "measurements are implausible: {why}"),
            Self::NothingToChange => f.write_str("no change needed"),
            Self::Busy { running } => busy(f, *running),
            Self::Unfit { reasons } => {
                write!(f, "the plan cannot be applied: {}", reasons.join("; "))
            }
            Self::NoSuchMember { member } => no_such_member(f, member),
            Self::TooLong { longest_s } => {
                write!(f, "a token is valid for {} minutes at most", longest_s / 60)
            }
            Self::TooManyTokens { most } => write!(
                f,
                "{most} unused tokens exist, the maximum; wait until some expire"
            ),
            Self::TooManyRevoked { most } => write!(f, "{most} {REVOCATIONS_FULL_REASON}"),
            Self::Oneself => f.write_str("a member cannot revoke itself: use another operator"),
            Self::CannotSign { why } => {
                write!(f, "this coordinator cannot sign certificates: {why}")
            }
            Self::NoVisitor => f.write_str(NO_VISITOR_REASON),
            Self::NoVisit { longest_s } => no_visit(f, *longest_s),
            Self::TooManyVisitors { most } => write!(
                f,
                "{most} dashboard tokens exist, the maximum; wait until some expire"
            ),
            Self::DiskFull => f.write_str(DISK_FULL_REASON),
            Self::Membership { why } => write!(f, "the membership is unchanged: {why}"),
            Self::NotLeading { leader } => not_leading(f, *leader),
        }
    }
}
