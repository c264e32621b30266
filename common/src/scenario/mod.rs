//! A scenario: a fabric, its jobs, the faults with their times, and the expected results.
//!
//! The virtual cluster and the simulation read the same files through this one loader.

use std::time::Duration;

use crate::fabric::Fabric;
use crate::ids::NodeId;
use crate::traffic::TrafficMatrix;
use crate::units::{Bytes, Rate};
use crate::workload::{Pattern, Program, ProgramStep};

mod file;

pub use file::fault::{Fault, FaultKind};

/// The name of the place from which a managed cluster is run. No node may have it then.
pub const STATION_NAME: &str = "station";

#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    pub name: String,
    /// All that is drawn by lot in this scenario is drawn from this seed.
    pub seed: u64,
    pub fabric: Fabric,
    /// Whether nodes are reached from a station too, by a network beside the fabric.
    pub management: bool,
    pub jobs: Vec<Job>,
    /// In order of time.
    pub faults: Vec<Fault>,
    pub expectations: Vec<Expectation>,
    /// The switches whose routes FRR makes.
    pub frr: Vec<NodeId>,
    /// The nodes whose packets are recorded.
    pub captures: Vec<NodeId>,
    /// Jobs that have not ended by then are stopped.
    pub limit: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub name: String,
    /// The host of each rank.
    pub hosts: Vec<NodeId>,
    pub pattern: Pattern,
    pub bytes: Bytes,
    /// How many connections carry what one rank sends to another.
    pub flows_per_pair: u32,
    pub compute: Duration,
    pub iterations: u32,
    pub transport: Transport,
    pub paths: PathChoice,
    pub start: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Tcp,
    /// Datagrams to port 4791, as RoCEv2 sends them.
    Udp4791,
    Quic,
}

/// How the flows of a job choose among equal paths, by the source ports they use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathChoice {
    /// As the switches' hash has it.
    Hash,
    /// All that leave a switch for the same other switch take one path: the worst case.
    Collide,
    /// As evenly as possible: the best case.
    Spread,
    /// All of them past this node.
    Via(NodeId),
}

impl Job {
    /// One iteration of each rank: compute, then communicate.
    pub fn programs(&self) -> Vec<Program> {
        let mut programs = self.pattern.programs(self.hosts.len(), self.bytes);
        if !self.compute.is_zero() {
            for program in &mut programs {
                program.insert(0, ProgramStep::Compute(self.compute));
            }
        }
        programs
    }

    /// What one iteration sends.
    pub fn traffic(&self) -> TrafficMatrix {
        let mut matrix = TrafficMatrix::default();
        for (rank, program) in self.programs().iter().enumerate() {
            for step in program {
                let ProgramStep::Exchange { sends, .. } = step else {
                    continue;
                };
                for send in sends {
                    matrix.add(self.hosts[rank], self.hosts[send.peer.index()], send.bytes);
                }
            }
        }
        matrix
    }
}

/// What must be true of a job when the scenario is over. Absent limits are not judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Expectation {
    pub job: usize,
    /// Whether all iterations are to be completed.
    pub completes: bool,
    pub max_resets: Option<u64>,
    pub max_retransmits: Option<u64>,
    pub max_lost: Option<u64>,
    pub max_reordered: Option<u64>,
    pub max_stall: Option<Duration>,
    pub max_iteration: Option<Duration>,
    pub min_iteration: Option<Duration>,
    pub min_flow_rate: Option<Rate>,
}
