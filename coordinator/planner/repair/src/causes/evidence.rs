//! All inputs of a diagnosis. Nodes have the names of the fabric; absent values were not measured.

use std::fmt;

use reweave_common::fabric::{Fabric, Role};
use reweave_common::ids::NodeId;
use reweave_common::snapshot::Hop;
use serde::Deserialize;

use super::Subject;
use super::error::EvidenceError;
use super::passages::{Passage, passage, passages};

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Evidence {
    pub probes: Vec<Probed>,
    pub ports: Vec<PortFacts>,
    pub hosts: Vec<HostFacts>,
    pub flows: Vec<FlowFacts>,
    pub traces: Vec<Trace>,
    pub jobs: Vec<JobFacts>,
    pub series: Vec<Series>,
    /// Bandwidth between two hosts, as measured.
    pub pairs: Vec<PairFacts>,
}

/// Results of the probes of one flow.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probed {
    /// All nodes the probes passed, from sender to receiver, and back to the sender where answers
    /// count; `*` for one that is not known.
    pub path: Vec<String>,
    /// Link from each node to the next, `*` if it is unknown; empty if none is named.
    #[serde(default)]
    pub links: Vec<String>,
    pub sent: u64,
    pub lost: u64,
    /// The same of probes as large as the MTU.
    #[serde(default)]
    pub large_sent: u64,
    #[serde(default)]
    pub large_lost: u64,
}

/// Counters of one end of a link over the observed time.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PortFacts {
    pub node: String,
    /// Node at the other end.
    pub peer: String,
    /// Link of the end, if several join the two nodes.
    pub link: Option<String>,
    /// Share of received frames with errors.
    pub frame_error_share: Option<f64>,
    pub corrected_bit_share: Option<f64>,
    pub link_downs: u64,
    /// The part of the time that it was made to pause by its peer.
    pub paused_share: Option<f64>,
    /// Number of times that it paused its peer for suspiciously long.
    pub pause_storms: u64,
    pub oversized: u64,
    /// Packets it had to send and dropped.
    pub send_drops: u64,
    pub mtu_bytes: Option<u32>,
    pub sent_gbps: Option<f64>,
    pub speed_gbps: Option<f64>,
    pub fec: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostFacts {
    pub host: String,
    pub pcie_gts: Option<f64>,
    pub pcie_most_gts: Option<f64>,
    pub pcie_lanes: Option<u32>,
    pub pcie_most_lanes: Option<u32>,
    /// Settings that should be equal on peers: GID index, DSCP, ECN, rail and others.
    pub settings: std::collections::BTreeMap<String, String>,
    pub clock_skew_ms: Option<f64>,
    pub cpu_busy_share: Option<f64>,
    /// Probes that its own kernel did not send.
    pub unsent: Vec<UnsentFacts>,
}

/// Number of unsent probes to a peer, by reason.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UnsentFacts {
    pub to: String,
    pub due: u64,
    pub forbidden: u64,
    pub no_room: u64,
    pub no_way: u64,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowFacts {
    pub path: Vec<String>,
    /// As in probes.
    #[serde(default)]
    pub links: Vec<String>,
    pub gbps: f64,
    /// Highest of the readings whose mean this is, and their number, if known.
    #[serde(default)]
    pub most_gbps: Option<f64>,
    #[serde(default)]
    pub readings: Option<usize>,
    #[serde(default)]
    pub job: Option<String>,
}

/// Number of hops between two hosts, in each direction.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    pub from: String,
    pub to: String,
    pub hops_there: u32,
    pub hops_back: u32,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobFacts {
    pub job: String,
    /// Host of each rank.
    pub ranks: Vec<String>,
    pub tensor_groups: Vec<Vec<usize>>,
    pub pipeline_stages: Vec<Vec<usize>>,
    /// Ranks of a ring reduction, in ring order.
    pub ring: Vec<usize>,
    /// World size and time of an all-reduce of the same size.
    pub allreduce_ms: Vec<(f64, f64)>,
    /// Number of collectives in which each rank arrived first.
    pub first: Vec<u64>,
    /// Time computing and communicating in an iteration, by rank.
    pub compute_ms: Vec<f64>,
    pub communicate_ms: Vec<f64>,
    /// The part of an iteration that the wires rest.
    pub rest_share: Option<f64>,
    /// Collectives, each with how long it took from each rank to the next around the ring.
    pub collectives: Vec<CollectiveFacts>,
    /// Expected load of each hop when the job starts, if it has not started yet.
    pub will_send: Vec<Demand>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CollectiveFacts {
    pub name: String,
    pub ms: f64,
    pub pairs: Vec<PairTime>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairTime {
    pub from: usize,
    pub to: usize,
    pub ms: f64,
    /// Nodes of its path; empty when it is not known.
    #[serde(default)]
    pub path: Vec<String>,
    /// As in probes.
    #[serde(default)]
    pub links: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Demand {
    pub path: Vec<String>,
    pub gbps: f64,
}

/// One figure over time, equally spaced.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    /// `latency_us`, `loss`, `errors` or `corrected_bit_share`.
    pub of: String,
    /// Where: a host, or the two ends of a link, the one that counted first.
    pub at: Vec<String>,
    /// Link, if several join the two nodes.
    #[serde(default)]
    pub link: Option<String>,
    pub every_s: f64,
    pub values: Vec<f64>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairFacts {
    pub from: String,
    pub to: String,
    #[serde(default)]
    pub rail: u32,
    pub gbps: f64,
}

/// Kinds of series.
pub(super) const KNOWN_SERIES: [&str; 4] = ["latency_us", "loss", "errors", "corrected_bit_share"];
/// Stands for an unknown node.
pub(super) const UNKNOWN_NODE: &str = "*";

pub(super) fn node(fabric: &Fabric, name: &str) -> Result<NodeId, EvidenceError> {
    let missing = || EvidenceError::NoSuchNode {
        name: name.to_owned(),
    };
    fabric.find(name).ok_or_else(missing)
}

/// The hops between neighbours, as far as both are known; by the first of parallel links.
pub(super) fn hops(fabric: &Fabric, path: &[String]) -> Result<Vec<Hop>, EvidenceError> {
    let passages = passages(fabric, path, &[])?;
    Ok(passages.into_iter().map(|it| it.hop).collect())
}

/// A node, by what it is.
pub(super) fn subject_at(fabric: &Fabric, name: &str) -> Subject {
    let role = fabric.find(name).map(|node| fabric.node(node).role);
    match role {
        Some(Role::Switch) => Subject::Switch(name.to_owned()),
        _ => Subject::Host(name.to_owned()),
    }
}

/// A direction of a link, by names.
pub fn subject_of(fabric: &Fabric, hop: Hop) -> Subject {
    Subject::Hop {
        from: fabric.name(hop.from).to_owned(),
        to: fabric
            .name(fabric.link(hop.link).far(hop.from).node)
            .to_owned(),
        link: fabric.link_name(hop.link),
    }
}

/// Both directions of a hop's link.
pub(super) fn link_of(fabric: &Fabric, hop: Hop) -> Subject {
    let ends = fabric.link(hop.link).ports();
    Subject::Link {
        ends: ends.map(|port| fabric.name(port.node).to_owned()),
        link: fabric.link_name(hop.link),
    }
}

impl UnsentFacts {
    /// A few are not sent whenever a route changes.
    const MIN_UNSENT_PROBES: u64 = 5;
    const MIN_UNSENT_SHARE: f64 = 0.1;

    const MAX_NAMED_NODES: usize = 2;

    fn are_many(&self) -> bool {
        let share = self.count() as f64 / self.due.max(1) as f64;
        self.count() >= Self::MIN_UNSENT_PROBES && share >= Self::MIN_UNSENT_SHARE
    }

    /// Describes the peers with many unsent probes. Of many such peers, it names the first and sums up the others.
    pub fn texts(all: &[Self]) -> Vec<String> {
        let many: Vec<_> = all.iter().filter(|it| it.are_many()).cloned().collect();
        let named = match many.len() {
            ..=Self::MAX_NAMED_NODES => many.len(),
            _ => 1,
        };
        let (named, others) = many.split_at(named);
        let mut sum = Self {
            to: format!("{} others", others.len()),
            ..Self::default()
        };
        for other in others {
            sum.due += other.due;
            sum.forbidden += other.forbidden;
            sum.no_room += other.no_room;
            sum.no_way += other.no_way;
        }
        let rest = Some(&sum).filter(|_| !others.is_empty());
        named.iter().chain(rest).map(ToString::to_string).collect()
    }

    pub fn count(&self) -> u64 {
        let known = self.forbidden.saturating_add(self.no_room);
        known.saturating_add(self.no_way)
    }
}

impl fmt::Display for UnsentFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { to, due, .. } = self;
        write!(f, "{} of {due} probes to {to} never left", self.count())?;
        let reasons = [
            (self.forbidden, "forbidden by its own kernel"),
            (self.no_room, "for lack of room in a queue of its own"),
            (self.no_way, "for lack of a way there"),
        ];
        let reasons = reasons.iter().filter(|(count, _)| *count > 0);
        reasons.enumerate().try_for_each(|(nth, (count, why))| {
            let before = if nth == 0 { ":" } else { "," };
            write!(f, "{before} {count} {why}")
        })
    }
}

impl PortFacts {
    /// Returns the direction of the link that its incoming counters measure.
    pub(super) fn incoming(&self, fabric: &Fabric) -> Result<Passage, EvidenceError> {
        passage(fabric, [&self.peer, &self.node], self.link.as_deref())
    }

    /// Whether it may be an end of that link.
    pub(super) fn may_be_of(&self, fabric: &Fabric, link: &str) -> bool {
        let incoming = self.incoming(fabric);
        incoming.is_ok_and(|it| it.may_be_by(fabric, link))
    }
}

impl Evidence {
    /// Jobs with a rank on the host, a flow over the link, or that are spoken of.
    pub(super) fn jobs_hurt(&self, subject: &Subject, fabric: &Fabric) -> Vec<String> {
        let on_host = |job: &JobFacts, host: &String| job.ranks.contains(host);
        let over = |job: &JobFacts, link: &str| {
            let flows = self.flows.iter();
            let mut flows = flows.filter(|flow| flow.job.as_ref() == Some(&job.job));
            flows.any(|flow| {
                let way = passages(fabric, &flow.path, &flow.links).unwrap_or_default();
                way.iter().any(|it| it.may_be_by(fabric, link))
            })
        };
        let past = |job: &JobFacts, switch: &String| {
            let flows = self.flows.iter();
            let mut flows = flows.filter(|flow| flow.job.as_ref() == Some(&job.job));
            flows.any(|flow| flow.path.contains(switch))
        };
        let hurt = |job: &&JobFacts| match subject {
            Subject::Job(name) => *name == job.job,
            Subject::Host(host) => on_host(job, host),
            Subject::Switch(switch) => past(job, switch),
            Subject::Pair(pair) => pair.iter().all(|host| on_host(job, host)),
            Subject::Hop { from, to, link } => {
                over(job, link) || on_host(job, from) || on_host(job, to)
            }
            Subject::Link { ends, link } => {
                over(job, link) || ends.iter().any(|end| on_host(job, end))
            }
            Subject::Ambiguous(_) | Subject::All(_) => false,
        };
        let mut named: Vec<_> = self
            .jobs
            .iter()
            .filter(hurt)
            .map(|job| job.job.clone())
            .collect();
        if let Subject::Ambiguous(_) | Subject::All(_) = subject {
            named = subject
                .each()
                .iter()
                .flat_map(|one| self.jobs_hurt(one, fabric))
                .collect();
            named.sort();
            named.dedup();
        }
        named
    }
}

impl JobFacts {
    pub(super) fn subject(&self) -> Subject {
        Subject::Job(self.job.clone())
    }
}
