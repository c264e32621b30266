//! A scenario: a fabric, its jobs, faults with their times, and expected results.
//!
//! The virtual cluster and the simulation read the same files through this loader.

use std::time::Duration;

use crate::fabric::{Fabric, NicUse};
use crate::ids::{NicId, NodeId};
use crate::traffic::TrafficMatrix;
use crate::units::{Bytes, Rate};
use crate::workload::{Pattern, Program, ProgramStep};

mod file;

pub use file::fault::{Fault, FaultKind};

/// Name of the machine from which a managed cluster is operated. It is reserved in such a cluster.
pub const STATION_NAME: &str = "station";

#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    pub name: String,
    /// Seed of all random choices of this scenario.
    pub seed: u64,
    pub fabric: Fabric,
    /// Whether a management network reaches the nodes, in addition to the fabric.
    pub management: bool,
    pub jobs: Vec<Job>,
    /// Ordered by time.
    pub faults: Vec<Fault>,
    pub expectations: Vec<Expectation>,
    /// Switches with routes from FRR.
    pub frr: Vec<NodeId>,
    /// Nodes whose packets are recorded.
    pub captures: Vec<NodeId>,
    /// Time limit; jobs that still run are stopped.
    pub limit: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub name: String,
    /// The host of each rank.
    pub hosts: Vec<NodeId>,
    pub pattern: Pattern,
    pub bytes: Bytes,
    /// Number of connections for the data from one rank to another: one for each rail, if the job uses rails.
    pub flows_per_pair: u32,
    /// If flow n of a pair binds NIC n of the sender, the receiver's is this many rails further. None if the flows are
    /// between the main addresses of hosts.
    pub rail_shift: Option<u32>,
    pub compute: Duration,
    pub iterations: u32,
    pub transport: Transport,
    pub paths: PathChoice,
    pub start: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Tcp,
    /// Datagrams to port 4791, as in RoCEv2.
    Udp4791,
    Quic,
}

/// How a job's flows are spread over equal-cost paths, by their source ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathChoice {
    /// By the hash of the switches.
    Hash,
    /// All flows between two switches take one path: the worst case.
    Collide,
    /// As evenly as possible: the best case.
    Spread,
    /// All through this node.
    Via(NodeId),
}

impl Job {
    /// Returns one iteration of each rank: compute, then communicate.
    pub fn programs(&self) -> Vec<Program> {
        let mut programs = self.pattern.programs(self.hosts.len(), self.bytes);
        if !self.compute.is_zero() {
            for program in &mut programs {
                program.insert(0, ProgramStep::Compute(self.compute));
            }
        }
        programs
    }

    /// Returns the NICs that the `nth` flow between two hosts binds. None if the job does not use rails.
    pub fn nics(&self, fabric: &Fabric, hosts: [NodeId; 2], nth: u32) -> Option<[NicId; 2]> {
        let shift = self.rail_shift?;
        let [from, to] = hosts.map(|host| training_nics(fabric, host));
        let received_at = nth.checked_add(shift)?.checked_rem(self.flows_per_pair)?;
        let sender = from.get(nth as usize)?;
        let receiver = to.get(received_at as usize)?;
        Some([*sender, *receiver])
    }

    /// Returns the traffic of one iteration.
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

/// Returns a host's NICs for training, in order of their rails.
fn training_nics(fabric: &Fabric, host: NodeId) -> Vec<NicId> {
    let nics = fabric.nics_of(host).iter().copied();
    nics.filter(|&nic| fabric.nic(nic).purpose == NicUse::Training)
        .collect()
}

/// Requirements on a job at the end of the scenario. Absent limits are not checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Expectation {
    pub job: usize,
    /// Whether all iterations must be completed.
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
