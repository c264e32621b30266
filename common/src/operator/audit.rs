//! Audit entries: who requested what, when, with which result.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::{JobOrder, MaintenanceStage, MemberOrder, Request};
use crate::circuit::{CircuitSet, OpticalName};
use crate::plan::Generation;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Audited {
    /// Number of the entry, rising with time.
    pub number: u64,
    /// Time in the format of RFC 3339.
    pub at: String,
    pub who: String,
    pub what: String,
    pub outcome: AuditOutcome,
    /// Reason of a refusal.
    pub why: Option<String>,
    /// Number of equal requests that this entry, the last of them, stands for: requests of unknown clients are not
    /// written down one by one.
    pub times: u64,
    /// Seal of the plan that was approved.
    pub seal: Option<String>,
    /// SHA-256 of the line in the file. The next line contains it, so a copy stored elsewhere proves that all lines up
    /// to this one are unchanged. Empty if the line could not be written.
    pub digest: String,
}

/// Result of a request. The outcome of an approved plan is in its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum AuditOutcome {
    Done,
    Refused,
}

impl AuditOutcome {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused => "refused",
        }
    }
}

impl Request {
    /// Returns the generation of the plan that the request approves.
    pub fn approves(&self) -> Option<Generation> {
        match self {
            Self::Apply { generation }
            | Self::ApplyAnyway { generation }
            | Self::ApplyNow { generation, .. }
            | Self::ApplySealed { generation, .. } => Some(*generation),
            _ => None,
        }
    }
}

fn wanted(circuits: &BTreeMap<OpticalName, CircuitSet>) -> String {
    let names: Vec<_> = circuits.keys().map(|name| name.0.as_str()).collect();
    if names.is_empty() {
        "that suit the traffic".to_owned()
    } else {
        format!("of {}", names.join(", "))
    }
}

const VIEW_ACTION: &str = "look at the cluster";

/// Describes the request in an operator's words. Requests that only read share one description.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan => f.write_str("make a plan"),
            Self::Rewire { circuits } => write!(f, "make a plan for circuits {}", wanted(circuits)),
            Self::Drain { links } => drain(f, links),
            Self::Weigh { by_worth: true } => f.write_str("make a plan for UCMP weights"),
            Self::Weigh { by_worth: false } => f.write_str("make a plan for equal weights"),
            Self::Reorder { job } => write!(f, "make a plan that orders ranks of {job}"),
            Self::TakeBack { generation } => rollback(f, *generation),
            Self::Apply { generation } => write!(f, "approve plan {generation}"),
            Self::ApplyAnyway { generation } => {
                write!(f, "approve plan {generation}{}", insisting(true, false))
            }
            Self::ApplyNow { generation, anyway } => {
                write!(f, "approve plan {generation}{}", insisting(*anyway, true))
            }
            Self::ApplySealed {
                generation,
                anyway,
                now,
                ..
            } => {
                let insisting = insisting(*anyway, *now);
                write!(f, "approve plan {generation} as shown{insisting}")
            }
            Self::Steer { generation, how } => write!(f, "{how} plan {generation}"),
            Self::Freeze { hosts } => write!(f, "freeze the job of {}", hosts.join(", ")),
            Self::Thaw { hosts } => write!(f, "thaw the job of {}", hosts.join(", ")),
            Self::Maintain { name, stage } => {
                write!(f, "maintenance of {name}: {}", stage_of(*stage))
            }
            Self::TakeOver { name } => write!(f, "maintenance of {name}: taken over"),
            Self::Job { job, order } => write!(f, "job {job}: {}", order_name(order)),
            Self::Invite {
                member, lasting, ..
            } => write!(f, "invite {member}, within {} s", lasting.as_secs()),
            Self::Revoke { member } => write!(f, "revoke {member}"),
            Self::ChangeMembers(order) => members(f, order),
            Self::ClusterVersion { minor } => version(f, *minor),
            Self::PolicySet { settings, .. } => policy(f, settings),
            Self::Visit { lasting, .. } => {
                write!(f, "make a token, good for {} s", lasting.as_secs())
            }
            Self::Renew { .. } => f.write_str("renew a certificate"),
            Self::Trace { refresh: true, .. } => f.write_str("trace flows now"),
            Self::Audit { .. } => f.write_str("read the audit log"),
            Self::Status
            | Self::Diagnose
            | Self::History { .. }
            | Self::Record { .. }
            | Self::Coordinators
            | Self::Standing
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
            | Self::DenyLists
            | Self::Policy
            | Self::Nics { .. }
            | Self::Traffic { .. }
            | Self::RailMatrix { .. }
            | Self::Lanes { .. } => f.write_str(VIEW_ACTION),
        }
    }
}

fn drain(f: &mut fmt::Formatter<'_>, links: &[String]) -> fmt::Result {
    match links {
        [] => f.write_str("make a plan that drains no link"),
        links => write!(f, "make a plan that drains {}", links.join(", ")),
    }
}

fn insisting(anyway: bool, now: bool) -> &'static str {
    match (anyway, now) {
        (false, false) => "",
        (true, false) => ", even if flows become slower",
        (false, true) => ", outside change windows",
        (true, true) => ", outside change windows, even if flows become slower",
    }
}

fn stage_of(stage: Option<MaintenanceStage>) -> &'static str {
    stage.map_or("ended", MaintenanceStage::as_str)
}

fn order_name(order: &JobOrder) -> String {
    match order {
        JobOrder::Register { hosts, .. } => format!("on {}", hosts.join(", ")),
        JobOrder::Phase { name, .. } => format!("phase {name}"),
        JobOrder::Start { may_change: true } => "starts, with route changes allowed".to_owned(),
        JobOrder::Start { may_change: false } => "starts".to_owned(),
        JobOrder::End => "is over".to_owned(),
    }
}

fn rollback(f: &mut fmt::Formatter<'_>, generation: Option<Generation>) -> fmt::Result {
    match generation {
        Some(taken) => write!(f, "make a plan that rolls plan {taken} back"),
        None => f.write_str("make a plan that rolls the last change back"),
    }
}

fn policy(f: &mut fmt::Formatter<'_>, settings: &BTreeMap<String, Option<String>>) -> fmt::Result {
    let wanted = settings.iter().map(|(key, value)| match value {
        Some(value) => format!("{key} = {value}"),
        None => format!("{key} as in the file"),
    });
    let wanted: Vec<_> = wanted.collect();
    write!(f, "set the policy: {}", wanted.join(", "))
}

fn version(f: &mut fmt::Formatter<'_>, minor: Option<u16>) -> fmt::Result {
    match minor {
        Some(minor) => write!(f, "set the cluster version to 1.{minor}"),
        None => f.write_str(VIEW_ACTION),
    }
}

fn members(f: &mut fmt::Formatter<'_>, order: &MemberOrder) -> fmt::Result {
    match order {
        MemberOrder::Add { name, address } => write!(f, "add coordinator {name} at {address}"),
        MemberOrder::Remove { who } => write!(f, "remove coordinator {who}"),
        MemberOrder::Replace { who, name, address } => {
            write!(f, "replace coordinator {who}")?;
            name.as_ref()
                .map_or(Ok(()), |name| write!(f, " by {name}"))?;
            address.map_or(Ok(()), |address| write!(f, " at {address}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drain_of_no_link_is_described() {
        let describe = |links: &[&str]| {
            let links = links.iter().map(|link| (*link).to_owned()).collect();
            Request::Drain { links }.to_string()
        };
        assert_eq!(describe(&[]), "make a plan that drains no link");
        let words = "make a plan that drains spine0, leaf0-spine1";
        assert_eq!(describe(&["spine0", "leaf0-spine1"]), words);
    }
}
