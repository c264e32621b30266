//! The status of the cluster. Ages are relative to the moment of the answer, because other machines have other clocks.

use std::net::Ipv4Addr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::finding::UselessPin;
use super::imbalance::FlowImbalance;
use super::membership::{CoordinatorStatus, OpenInvitation, RefusedPeer};
use super::place::Hop;
use super::plan::Pin;
use crate::bandwidth::Bandwidth;
use crate::circuit::CircuitSet;
use crate::flow::FlowKey;
use crate::hardware::Lack;
use crate::member::Member;
use crate::plan::Generation;
use crate::probing::{PortStrays, Summary};
use crate::units::Rate;

/// Certificates are renewed when a third of their lifetime is left; below this value, renewal has failed.
const MIN_VALIDITY_LEFT: Duration = Duration::from_hours(4);
/// Limit for the skew of clocks: beyond it, logs and certificate times are misleading.
const MAX_SKEW_MS: u64 = 500;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Status {
    /// Generation of the routes in force.
    pub generation: Generation,
    pub mode: Mode,
    /// Problems that an operator must solve; empty if there are none.
    pub alarms: Vec<String>,
    /// In automatic mode: reason why no change is made now.
    pub waits_because: Option<String>,
    /// Offered plans and changes in progress, oldest first.
    pub changes: Vec<RunningChange>,
    /// One entry per node, in the order of the fabric.
    pub agents: Vec<AgentStatus>,
    /// Directions of links with recent measurements.
    pub links: Vec<LinkStatus>,
    /// Flows that sent recently.
    pub flows: Vec<FlowStatus>,
    pub pins: Vec<Pin>,
    /// Pins without benefit for their flows, with reasons.
    pub useless_pins: Vec<UselessPin>,
    /// Absent if no elephant flow has a choice of links.
    pub flow_imbalance: Option<FlowImbalance>,
    /// Less urgent problems for an operator, worst first.
    pub warnings: Vec<String>,
    /// All coordinators, including the one that answers.
    pub coordinators: Vec<CoordinatorStatus>,
    /// Recently refused peers, latest first.
    pub refused: Vec<RefusedPeer>,
    pub invitations: Vec<OpenInvitation>,
    /// Revoked members.
    pub revoked: Vec<Member>,
    pub opticals: Vec<OpticalStatus>,
    pub probes: ProbeStatus,
    /// Bandwidth of paths by packet trains, slowest first; not all of a large cluster.
    pub bandwidths: Vec<PathBandwidth>,
    /// Recent RDMA measurements, slowest first; not all of a large cluster.
    pub rdma: Vec<RdmaStatus>,
    /// Measurements that some agents cannot make, the most frequent first; not all of a large cluster.
    pub lacks: Vec<LackStatus>,
    pub maintenance: Vec<MaintenanceStatus>,
    pub frozen: Vec<FrozenStatus>,
}

/// A frozen job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FrozenStatus {
    pub hosts: Vec<String>,
    /// Member that has frozen it.
    pub by: String,
    pub age_ms: u64,
}

/// A switch or an optical switch under maintenance, which must not carry traffic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MaintenanceStatus {
    pub name: String,
    pub stage: MaintenanceStage,
    /// Member that has requested this stage.
    pub by: String,
    pub age_ms: u64,
    /// Links of the switch, by the circuits in force.
    pub links: Vec<String>,
    /// Reasons why idleness is not proven; empty if it is.
    pub not_empty: Vec<String>,
}

/// Stage of maintenance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum MaintenanceStage {
    /// Traffic is moved away.
    Draining,
    /// The switch is proven idle, and work may have begun.
    Working,
    /// The work is done, and traffic may return.
    Returning,
}

impl MaintenanceStage {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Draining => "draining",
            Self::Working => "working",
            Self::Returning => "returning",
        }
    }
}

/// A measurement that these nodes cannot make, for the same reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LackStatus {
    pub lack: Lack,
    pub nodes: Vec<String>,
}

/// An optical switch, in the order of the fabric.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OpticalStatus {
    pub optical: String,
    /// Whether its driver has a session.
    pub is_driven: bool,
    /// Circuits of the plan in force.
    pub circuits: CircuitSet,
}

/// Approval of plans.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// An operator approves plans.
    #[default]
    Manual,
    /// The coordinator applies plans within its policy.
    Auto,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AgentStatus {
    pub node: String,
    /// Addresses in its flows; empty until it has reported.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub addresses: Vec<Ipv4Addr>,
    pub state: AgentState,
    /// Time since its last report; absent if it never reported.
    pub age_ms: Option<u64>,
    /// Generation that it last read back from its kernel; absent if the kernel holds none.
    pub generation: Option<Generation>,
    /// Number of its links with known interface and address, and of its links in the fabric.
    pub known_links: usize,
    pub links: usize,
    /// Readings that were discarded, because they were for another node or too many.
    pub discarded_readings: u64,
    /// Useless packets on its probe ports; absent until it reports them.
    pub strays: Option<PortStrays>,
    /// Build of the agent; absent without a session.
    pub build: Option<String>,
    pub protocol: Option<String>,
    pub certificate_left_s: Option<u64>,
    /// Time by which its clock is ahead of the coordinator's.
    pub clock_skew_ms: Option<i64>,
}

impl AgentStatus {
    pub fn is_expiring(&self) -> bool {
        let left = self.certificate_left_s;
        left.is_some_and(|left| left <= MIN_VALIDITY_LEFT.as_secs())
    }

    pub fn is_askew(&self) -> bool {
        let skew = self.clock_skew_ms;
        skew.is_some_and(|skew| skew.unsigned_abs() > MAX_SKEW_MS)
    }

    /// Whether an operator has a reason to look at it.
    pub fn is_in_trouble(&self) -> bool {
        self.state != AgentState::Up
            || self.known_links < self.links
            || self.discarded_readings > 0
            || self.is_expiring()
            || self.is_askew()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum AgentState {
    /// It reports.
    Up,
    /// It has a session, but has been silent for too long.
    Silent,
    /// It was connected and is gone.
    Down,
    /// It was never connected since the coordinator started.
    Unseen,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LinkStatus {
    pub hop: Hop,
    pub up: bool,
    /// Drained by an operator or the policy.
    pub drained: bool,
    pub rate_bits_per_s: Rate,
    pub capacity_bits_per_s: Rate,
    /// Free capacity, from the rate and the counters of the sending interface; absent if the rate is unknown.
    pub spare_bits_per_s: Option<Rate>,
    pub age_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FlowStatus {
    pub flow: FlowKey,
    pub from: String,
    pub to: String,
    pub rate_bits_per_s: Rate,
    pub least_bits_per_s: Rate,
    pub most_bits_per_s: Rate,
    /// Absent if a hop is unknown.
    pub path: Option<Vec<Hop>>,
    /// Path of the return traffic, which may differ; absent if it is unknown.
    pub path_back: Option<Vec<Hop>>,
    pub age_ms: u64,
}

/// Results of the probes of the last minute.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ProbeStatus {
    /// Number of pairs of hosts that probe each other, per direction.
    pub pairs: usize,
    /// Summary of all probes; absent if there are none.
    pub all: Option<Summary>,
    /// Pairs with the most loss and latency, worst first; not all of a large cluster.
    pub worst: Vec<PairStatus>,
    /// Absent while the paths of probes are being discovered.
    pub coverage: Option<ProbeCoverage>,
}

/// Coverage of links by the chosen probe flows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ProbeCoverage {
    /// Number of directions of all links.
    pub directions: usize,
    /// Number of flows that should cross each direction.
    pub wanted: u32,
    /// Number of directions with fewer flows.
    pub seldom: usize,
    /// Some of these directions.
    pub seldom_hops: Vec<Hop>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PairStatus {
    pub from: String,
    pub to: String,
    pub summary: Summary,
}

/// RDMA measurements from one host to another. Values that were not measured, or got no answer, are absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RdmaStatus {
    pub from: String,
    pub to: String,
    /// Median round-trip time, over datagrams and over a connection.
    pub ud_us: Option<f64>,
    pub rc_us: Option<f64>,
    pub rate_bits_per_s: Option<Rate>,
    /// Messages sent in the last measurements.
    pub sent: u32,
    pub lost: u32,
    /// Age of the oldest of these measurements.
    pub age_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PathBandwidth {
    pub from: String,
    pub to: String,
    /// Flow of the trains; another source port may take another path.
    pub flow: FlowKey,
    pub bandwidth: Bandwidth,
    /// Names of the nodes on the path; `?` for a silent one. Absent if they are unknown.
    pub over: Option<Vec<String>>,
    /// Time since the last train.
    pub age_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RunningChange {
    pub generation: Generation,
    pub parent: Generation,
    pub phase: Phase,
    /// Nodes that have not answered yet.
    pub waiting_for: Vec<String>,
    /// Reasons of a rollback, or of a stop.
    pub reasons: Vec<String>,
    /// Operator who paused it.
    pub stopped_by: Option<String>,
    /// Time since the plan was proposed.
    pub age_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Not applied yet.
    Proposed,
    Approved,
    Applying,
    Verifying,
    RollingBack,
    /// It is unknown whether the old routes are in force everywhere: an operator must look.
    Held,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn well() -> AgentStatus {
        AgentStatus {
            node: "h0".to_owned(),
            addresses: vec![],
            state: AgentState::Up,
            age_ms: Some(100),
            generation: None,
            known_links: 2,
            links: 2,
            discarded_readings: 0,
            strays: None,
            build: None,
            protocol: None,
            certificate_left_s: Some(80_000),
            clock_skew_ms: Some(-20),
        }
    }

    #[test]
    fn each_reason_alone_is_trouble() {
        assert!(!well().is_in_trouble());
        let bend: [fn(&mut AgentStatus); 7] = [
            |agent| agent.state = AgentState::Silent,
            |agent| agent.state = AgentState::Down,
            |agent| agent.state = AgentState::Unseen,
            |agent| agent.known_links = 1,
            |agent| agent.discarded_readings = 1,
            |agent| agent.certificate_left_s = Some(3600),
            |agent| agent.clock_skew_ms = Some(-600),
        ];
        for (nth, bend) in bend.into_iter().enumerate() {
            let mut agent = well();
            bend(&mut agent);
            assert!(agent.is_in_trouble(), "{nth}: {agent:?}");
        }
    }
}
