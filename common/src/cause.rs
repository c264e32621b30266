//! Classes and subjects of findings, with their confidence.

use std::fmt;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    BadOptic,
    LossyLink,
    FaultyHost,
    FaultySwitch,
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
    UnsentProbes,
}

/// Of what or whom a finding speaks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    Host(String),
    Switch(String),
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
    Ambiguous(Vec<Suspect>),
    /// The evidence speaks of all of these.
    All(Vec<Suspect>),
}

/// One of several of which a finding may speak: a [`Subject`] without the last kinds, so that nothing holds
/// itself, however deep somebody would nest it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Suspect {
    Host(String),
    Switch(String),
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
}

impl From<Suspect> for Subject {
    fn from(suspect: Suspect) -> Self {
        match suspect {
            Suspect::Host(name) => Self::Host(name),
            Suspect::Switch(name) => Self::Switch(name),
            Suspect::Hop { from, to, link } => Self::Hop { from, to, link },
            Suspect::Link { ends, link } => Self::Link { ends, link },
            Suspect::Job(name) => Self::Job(name),
            Suspect::Pair(hosts) => Self::Pair(hosts),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Cause {
    pub class: Class,
    pub subject: Subject,
    pub evidence: Vec<String>,
    /// From 0 to 1.
    pub confidence: f64,
    /// What would help.
    pub remedy: String,
    pub jobs: Vec<String>,
}

impl Subject {
    /// The evidence fits all that any of these speaks of.
    pub fn either(subjects: impl IntoIterator<Item = Self>) -> Self {
        Self::Ambiguous(subjects.into_iter().flat_map(Self::suspects).collect())
    }

    /// The evidence speaks of all that these speak of.
    pub fn all(subjects: impl IntoIterator<Item = Self>) -> Self {
        Self::All(subjects.into_iter().flat_map(Self::suspects).collect())
    }

    fn suspects(self) -> Vec<Suspect> {
        vec![match self {
            Self::Host(name) => Suspect::Host(name),
            Self::Switch(name) => Suspect::Switch(name),
            Self::Hop { from, to, link } => Suspect::Hop { from, to, link },
            Self::Link { ends, link } => Suspect::Link { ends, link },
            Self::Job(name) => Suspect::Job(name),
            Self::Pair(hosts) => Suspect::Pair(hosts),
            Self::Ambiguous(all) | Self::All(all) => return all,
        }]
    }

    /// All that it speaks of, or may speak of, one by one.
    pub fn each(&self) -> Vec<Self> {
        let suspects = self.clone().suspects();
        suspects.into_iter().map(Self::from).collect()
    }

    /// Whether both speak of the same thing, or one of a part of the other.
    pub fn touches(&self, other: &Self) -> bool {
        match (self, other) {
            (several @ (Self::Ambiguous(_) | Self::All(_)), one)
            | (one, several @ (Self::Ambiguous(_) | Self::All(_))) => {
                several.each().iter().any(|it| it.touches(one))
            }
            (Self::Host(node) | Self::Switch(node), link)
            | (link, Self::Host(node) | Self::Switch(node)) => match link {
                Self::Hop { from, to, .. } => node == from || node == to,
                Self::Link { ends, .. } => ends.contains(node),
                Self::Host(other) | Self::Switch(other) => node == other,
                _ => false,
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
    pub const ALL: [Self; 26] = [
        Self::BadOptic,
        Self::LossyLink,
        Self::FaultyHost,
        Self::FaultySwitch,
        Self::EcmpCollision,
        Self::PfcStorm,
        Self::PfcDeadlock,
        Self::Straggler,
        Self::PcieDowngrade,
        Self::NicFlap,
        Self::MtuMismatch,
        Self::ConfigurationMismatch,
        Self::AsymmetricRoute,
        Self::Incast,
        Self::RankOrder,
        Self::AllreduceLinear,
        Self::NodeAlwaysFirst,
        Self::PipelineAcrossSpine,
        Self::TensorAcrossHosts,
        Self::SlowPair,
        Self::Latency,
        Self::HostBound,
        Self::DyingOptic,
        Self::Saturation,
        Self::ClocksApart,
        Self::UnsentProbes,
    ];

    pub fn remedy(self) -> &'static str {
        match self {
            Self::BadOptic => "drain the link, reweave plan drain, and replace its optics or cable",
            Self::LossyLink => "drain the link, reweave plan drain, and look at both of its ends",
            Self::FaultyHost => "take the host out of its jobs and look at its NIC",
            Self::FaultySwitch => "drain the switch and look at its hardware",
            Self::EcmpCollision => "rebalance: reweave plan",
            Self::PfcStorm => "isolate the NIC that sends the pause frames",
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
            Self::NodeAlwaysFirst => {
                "account for it: this node has fewer hops to the aggregation \
                                      point"
            }
            Self::PipelineAcrossSpine => "place the stages along a rack: reweave plan ranks",
            Self::TensorAcrossHosts => "keep tensor-parallel groups inside hosts",
            Self::SlowPair => "look at the path between the two: reweave explain",
            Self::Latency => "look for what changed then",
            Self::HostBound => {
                "look at the hosts' processors, memory and storage, not at the fabric"
            }
            Self::DyingOptic => {
                "drain the link, reweave plan drain, and replace its optics before it fails"
            }
            Self::Saturation => {
                "start the job elsewhere, or move flows first: reweave plan balance"
            }
            Self::ClocksApart => {
                "synchronise the clocks; times across these hosts were not compared"
            }
            Self::UnsentProbes => {
                "allow agent traffic in its firewall and check its routes: it sends no probes, so \
                 nothing is measured"
            }
        }
    }

    pub fn cause(self, subject: Subject, confidence: f64, evidence: String) -> Cause {
        Cause {
            class: self,
            subject,
            evidence: vec![evidence],
            confidence,
            remedy: self.remedy().to_owned(),
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
            Self::FaultySwitch => "faulty switch",
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
            Self::UnsentProbes => "unsent probes",
        })
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(name) | Self::Switch(name) | Self::Link { link: name, .. } => {
                f.write_str(name)
            }
            Self::Job(name) => write!(f, "job {name}"),
            Self::Hop { from, link, .. } => write!(f, "{link} from {from}"),
            Self::Pair([a, b]) => write!(f, "{a} and {b}"),
            Self::Ambiguous(_) => {
                let all: Vec<_> = self.each().iter().map(Self::to_string).collect();
                write!(f, "ambiguous: {}", all.join(" or "))
            }
            Self::All(_) => {
                let all: Vec<_> = self.each().iter().map(Self::to_string).collect();
                f.write_str(&all.join(", "))
            }
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let evidence = self.evidence.join("; ");
        write!(f, "{}: {}, {evidence}", self.class, self.subject)
    }
}
