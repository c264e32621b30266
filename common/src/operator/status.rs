//! The status of the cluster. Ages count back from the moment of the answer, since the coordinator's clock means
//! nothing elsewhere.

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

/// A third of a certificate's life is left when it is renewed; with so little, renewing fails.
const MIN_VALIDITY_LEFT: Duration = Duration::from_hours(4);
/// Logs and certificates go by the time of day; beyond this they lead people astray.
const MAX_SKEW_MS: u64 = 500;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Status {
    /// Of the routes that are in force.
    pub generation: Generation,
    pub mode: Mode,
    /// What needs a person; empty when nothing does.
    pub alarms: Vec<String>,
    /// In automatic mode: why nothing is being changed just now.
    pub waits_because: Option<String>,
    /// On offer and on their way, the oldest first.
    pub changes: Vec<RunningChange>,
    /// One for each node of the fabric, in its order.
    pub agents: Vec<AgentStatus>,
    /// Each direction of a link that was measured lately.
    pub links: Vec<LinkStatus>,
    /// Each flow that was sending lately.
    pub flows: Vec<FlowStatus>,
    pub pins: Vec<Pin>,
    /// Those of them that serve their flows no more, and why.
    pub useless_pins: Vec<UselessPin>,
    /// Absent when no elephant goes where there is a choice.
    pub flow_imbalance: Option<FlowImbalance>,
    /// What a person should look at, the worst first; less than what needs one at once.
    pub warnings: Vec<String>,
    /// The one that answers is among them.
    pub coordinators: Vec<CoordinatorStatus>,
    /// Who was not let in lately, the latest first.
    pub refused: Vec<RefusedPeer>,
    pub invitations: Vec<OpenInvitation>,
    /// Members that are revoked.
    pub revoked: Vec<Member>,
    pub opticals: Vec<OpticalStatus>,
    pub probes: ProbeStatus,
    /// What trains of packets say of the ways between hosts, the slowest first; not all of a large
    /// cluster.
    pub bandwidths: Vec<PathBandwidth>,
    /// Of hosts that were measured over RDMA lately, the slowest first; not all of a large cluster.
    pub rdma: Vec<RdmaStatus>,
    /// What some agents cannot measure, those first that most of them lack; not all of a large cluster.
    pub lacks: Vec<LackStatus>,
    pub maintenance: Vec<MaintenanceStatus>,
    pub frozen: Vec<FrozenStatus>,
}

/// A job that nothing is to be changed under.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FrozenStatus {
    pub hosts: Vec<String>,
    /// Who has frozen it.
    pub by: String,
    pub age_ms: u64,
}

/// A switch or an optical switch under maintenance, which must not carry traffic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MaintenanceStatus {
    pub name: String,
    pub stage: MaintenanceStage,
    /// Who has brought it to this stage.
    pub by: String,
    pub age_ms: u64,
    /// By the circuits in force.
    pub links: Vec<String>,
    /// Why it is not sure that nothing passes it; empty when that is proven.
    pub not_empty: Vec<String>,
}

/// How far work on a switch has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum MaintenanceStage {
    /// It must not carry traffic.
    Draining,
    /// It was proven that nothing does, and work may have begun.
    Working,
    /// The work is done, and it may carry again.
    Returning,
}

/// What these nodes cannot measure, all for the same reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LackStatus {
    pub lack: Lack,
    pub nodes: Vec<String>,
}

/// An optical switch of the fabric, in its order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct OpticalStatus {
    pub optical: String,
    /// Whether its driver has a session.
    pub is_driven: bool,
    /// By the plan that is in force.
    pub circuits: CircuitSet,
}

/// Who decides that a plan is carried out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// An operator does.
    #[default]
    Manual,
    /// The coordinator does, within its policy.
    Auto,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct AgentStatus {
    pub node: String,
    /// By which flows name it; empty until it has reported.
    #[cfg_attr(feature = "schema", schema(value_type = Vec<String>))]
    pub addresses: Vec<Ipv4Addr>,
    pub state: AgentState,
    /// Since it last reported; absent when it never did.
    pub age_ms: Option<u64>,
    /// What its kernel holds, as it last read it back; absent for one that holds none.
    pub generation: Option<Generation>,
    /// How many of its links are known by interface and address, of how many the fabric has.
    pub known_links: usize,
    pub links: usize,
    /// Readings that were not kept, because they spoke for another node or were too many.
    pub discarded_readings: u64,
    /// Packets on its ports of probes that were of no use; absent until it says so.
    pub strays: Option<PortStrays>,
    /// Of its session; absent without one.
    pub build: Option<String>,
    pub protocol: Option<String>,
    pub certificate_left_s: Option<u64>,
    /// By how much its clock is ahead of the coordinator's.
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

    /// Whether a person has any reason to look at it.
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
    /// Its session stands, but it has been silent for too long to be believed.
    Silent,
    /// It was here and is gone.
    Down,
    /// It has not been here since the coordinator started.
    Unseen,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct LinkStatus {
    pub hop: Hop,
    pub up: bool,
    /// It is drained, by an operator or the policy.
    pub drained: bool,
    pub rate_bits_per_s: Rate,
    pub capacity_bits_per_s: Rate,
    /// What is left of it, by the speed and the counters of the interface that sends; absent where its
    /// speed is not known.
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
    /// Absent when a hop of it is not known.
    pub path: Option<Vec<Hop>>,
    /// The way of what the receiver sends back, which may be another one; absent when it is not
    /// known.
    pub path_back: Option<Vec<Hop>>,
    pub age_ms: u64,
}

/// What the probes of the last minute say.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ProbeStatus {
    /// Of hosts that probe each other, each direction counted.
    pub pairs: usize,
    /// All probes together; absent when there are none.
    pub all: Option<Summary>,
    /// The pairs that lose most and take longest, worst first; not all of a large cluster.
    pub worst: Vec<PairStatus>,
    /// Absent while it is found out which way probes go.
    pub coverage: Option<ProbeCoverage>,
}

/// How links are crossed by those flows of probes that were chosen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ProbeCoverage {
    /// Of all links, both counted.
    pub directions: usize,
    /// This many flows are to cross each.
    pub wanted: u32,
    /// Directions that fewer cross.
    pub seldom: usize,
    /// Some of them.
    pub seldom_hops: Vec<Hop>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PairStatus {
    pub from: String,
    pub to: String,
    pub summary: Summary,
}

/// What came of measuring the way from one host to another over RDMA. Each absent where that was not
/// measured, or nothing came back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RdmaStatus {
    pub from: String,
    pub to: String,
    /// There and back, by datagrams and over a connection: the median.
    pub ud_us: Option<f64>,
    pub rc_us: Option<f64>,
    pub rate_bits_per_s: Option<Rate>,
    /// Of the messages of the last measurements.
    pub sent: u32,
    pub lost: u32,
    /// Of the oldest of these.
    pub age_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PathBandwidth {
    pub from: String,
    pub to: String,
    /// Of the trains: another source port may take another way.
    pub flow: FlowKey,
    pub bandwidth: Bandwidth,
    /// The nodes between both, as they name themselves; `?` for a silent one. Absent where they are unknown.
    pub over: Option<Vec<String>>,
    /// Since the last train.
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
    /// Why it is rolled back, and what it waits for where it is held.
    pub reasons: Vec<String>,
    /// Who wants that it begins nothing more for now.
    pub stopped_by: Option<String>,
    /// Since the plan was proposed.
    pub age_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// It may be applied, and nothing has been done.
    Proposed,
    Approved,
    Applying,
    Verifying,
    RollingBack,
    /// It is not known whether the old routes are back everywhere: a person must look.
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
