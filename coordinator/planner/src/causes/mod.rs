//! What slows jobs: evidence in, findings out.
//!
//! Each finding has a class, says of what or whom it speaks and by which evidence, how sure it is,
//! what would help, and which jobs suffer. A host is suspected before a link; where the evidence does
//! not tell two causes apart, both are named and the finding says so. What is not known is no
//! evidence.

mod change;
mod configuration;
mod counters;
mod evidence;
mod explain;
mod forecast;
mod hosts;
mod jobs;
mod localise;
mod routes;
#[cfg(test)]
mod tests;

use std::fmt;

use serde::Serialize;

pub use change::{Change, changes};
pub use evidence::{Evidence, EvidenceError};
pub use explain::{Explanation, explain};
pub use localise::{Culprit, Probe, Suspect, localise};

use reweave_common::fabric::Fabric;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    BadOptic,
    LossyLink,
    FaultyHost,
    EcmpCollision,
    PfcStorm,
    PfcDeadlock,
    Straggler,
    PcieDowngrade,
    NicFlap,
    MtuMismatch,
    ConfigurationMismatch,
    AsymmetricRoute,
    Incast,
    RankOrder,
    AllreduceLinear,
    NodeAlwaysFirst,
    PipelineAcrossSpine,
    TensorAcrossHosts,
    SlowPair,
    Latency,
    HostBound,
    DyingOptic,
    Saturation,
    ClocksApart,
}

/// Of what or whom a finding speaks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    Host(String),
    /// One direction of a link, by the node that sends over it.
    Hop {
        from: String,
        to: String,
        link: String,
    },
    Link {
        ends: [String; 2],
        link: String,
    },
    Job(String),
    Pair([String; 2]),
    /// The evidence fits each of these.
    Ambiguous(Vec<Subject>),
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    pub class: Class,
    pub subject: Subject,
    pub evidence: Vec<String>,
    /// From 0 to 1.
    pub confidence: f64,
    pub remedy: &'static str,
    pub jobs: Vec<String>,
}

/// All that is wrong, what is surest first. A cause that explains others' evidence takes it from
/// them.
pub fn diagnose(evidence: &Evidence, fabric: &Fabric) -> Result<Vec<Finding>, EvidenceError> {
    evidence.check(fabric)?;
    let mut findings = counters::findings(evidence, fabric)?;
    findings.extend(configuration::findings(evidence, fabric)?);
    findings.extend(hosts::findings(evidence));
    findings.extend(routes::findings(evidence, fabric)?);
    let lossy = localise::findings(evidence, fabric)?;
    merge_losses(&mut findings, lossy);
    findings.extend(jobs::findings(evidence, fabric)?);
    findings.extend(change::findings(evidence, fabric)?);
    findings.extend(forecast::findings(evidence, fabric)?);
    let mut findings = told_once(findings);
    for finding in &mut findings {
        finding.jobs = evidence.jobs_hurt(&finding.subject, fabric);
    }
    findings.sort_by(|a, b| {
        let surest = b.confidence.total_cmp(&a.confidence);
        surest.then_with(|| (a.class, &a.subject).cmp(&(b.class, &b.subject)))
    });
    Ok(findings)
}

/// What several ports say of the same is one finding.
fn told_once(findings: Vec<Finding>) -> Vec<Finding> {
    let mut once: Vec<Finding> = Vec::new();
    for finding in findings {
        let is_same =
            |it: &&mut Finding| (it.class, &it.subject) == (finding.class, &finding.subject);
        match once.iter_mut().find(is_same) {
            Some(known) => known.evidence.extend(finding.evidence),
            None => once.push(finding),
        }
    }
    once
}

/// Loss on what is known to be broken otherwise is evidence for that, and no finding of its own.
fn merge_losses(findings: &mut Vec<Finding>, losses: Vec<Finding>) {
    for loss in losses {
        let same = findings
            .iter_mut()
            .find(|it| it.subject.touches(&loss.subject));
        match same {
            Some(known) => {
                known.evidence.extend(loss.evidence);
                known.confidence = known.confidence.max(loss.confidence);
            }
            None => findings.push(loss),
        }
    }
}

impl Subject {
    /// Whether both speak of the same thing, or one of a part of the other.
    fn touches(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Ambiguous(all), one) | (one, Self::Ambiguous(all)) => {
                all.iter().any(|it| it.touches(one))
            }
            (Self::Host(host), link) | (link, Self::Host(host)) => match link {
                Self::Hop { from, to, .. } => host == from || host == to,
                Self::Link { ends, .. } => ends.contains(host),
                other => *other == Self::Host(host.clone()),
            },
            (
                Self::Link { link: a, .. },
                Self::Hop { link: b, .. } | Self::Link { link: b, .. },
            )
            | (Self::Hop { link: a, .. }, Self::Link { link: b, .. }) => a == b,
            (a, b) => a == b,
        }
    }
}

impl Class {
    pub fn remedy(self) -> &'static str {
        match self {
            Self::BadOptic => "drain the link and replace its optics or cable",
            Self::LossyLink => "drain the link and look at both of its ends",
            Self::FaultyHost => "take the host out of its jobs and look at its NIC",
            Self::EcmpCollision => "rebalance: reweave plan",
            Self::PfcStorm => "isolate the NIC that keeps pausing",
            Self::PfcDeadlock => "break the loop: drain one of its links",
            Self::Straggler => "take the host out of its jobs",
            Self::PcieDowngrade => "reseat the NIC, or take the host out of its jobs",
            Self::NicFlap => "replace the cable or optics; let the jobs' timeouts outlast a flap",
            Self::MtuMismatch => "set the same MTU at both ends",
            Self::ConfigurationMismatch => "set it as on the other hosts",
            Self::AsymmetricRoute => "make the routes of both directions the same length",
            Self::Incast => "pace the senders, or schedule them one after another",
            Self::RankOrder => "reorder the ranks at the next start: reweave plan ranks",
            Self::AllreduceLinear => "use a tree or reduce inside racks first: reweave plan tuner",
            Self::NodeAlwaysFirst => "account for it: this node has fewer hops to where data meets",
            Self::PipelineAcrossSpine => "place the stages along a rack: reweave plan ranks",
            Self::TensorAcrossHosts => "keep tensor-parallel groups inside hosts",
            Self::SlowPair => "look at the path between the two: reweave explain",
            Self::Latency => "look for what changed then",
            Self::HostBound => {
                "look at the hosts' processors, memory and storage, not at the fabric"
            }
            Self::DyingOptic => "replace the optics before the link fails",
            Self::Saturation => {
                "start the job elsewhere, or move flows first: reweave plan balance"
            }
            Self::ClocksApart => {
                "synchronise the clocks; times across these hosts were not compared"
            }
        }
    }

    pub(super) fn finding(self, subject: Subject, confidence: f64, evidence: String) -> Finding {
        Finding {
            class: self,
            subject,
            evidence: vec![evidence],
            confidence,
            remedy: self.remedy(),
            jobs: Vec::new(),
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadOptic => "bad optic",
            Self::LossyLink => "lossy link",
            Self::FaultyHost => "faulty host",
            Self::EcmpCollision => "ECMP collision",
            Self::PfcStorm => "PFC storm",
            Self::PfcDeadlock => "PFC deadlock",
            Self::Straggler => "straggler",
            Self::PcieDowngrade => "PCIe downgrade",
            Self::NicFlap => "NIC flap",
            Self::MtuMismatch => "MTU mismatch",
            Self::ConfigurationMismatch => "configuration mismatch",
            Self::AsymmetricRoute => "asymmetric route",
            Self::Incast => "incast",
            Self::RankOrder => "rank order against racks",
            Self::AllreduceLinear => "all-reduce time linear in world size",
            Self::NodeAlwaysFirst => "one node always first",
            Self::PipelineAcrossSpine => "pipeline across the spine",
            Self::TensorAcrossHosts => "tensor parallel across hosts",
            Self::SlowPair => "slow pair",
            Self::Latency => "latency changed",
            Self::HostBound => "host-bound",
            Self::DyingOptic => "dying optic",
            Self::Saturation => "link will saturate",
            Self::ClocksApart => "clocks apart",
        })
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(name) | Self::Link { link: name, .. } => f.write_str(name),
            Self::Job(name) => write!(f, "job {name}"),
            Self::Hop { from, link, .. } => write!(f, "{link} from {from}"),
            Self::Pair([a, b]) => write!(f, "{a} and {b}"),
            Self::Ambiguous(all) => {
                let all: Vec<_> = all.iter().map(ToString::to_string).collect();
                write!(f, "ambiguous: {}", all.join(" or "))
            }
        }
    }
}
