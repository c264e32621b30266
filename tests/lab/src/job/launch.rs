//! Flows of a job with their ports and paths.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::ids::{NodeId, Rank};
use reweave_common::scenario::{Job, Transport};

use super::ports::{self, Candidate, Hop};
use super::walk::{self, Routed};
use crate::error::LabError;
use crate::nodes::Nodes;
use crate::wiring;
use crate::worker::protocol::{Assignment, FlowSpec};

/// RoCEv2's port.
const ROCE_PORT: u16 = 4791;
/// Listening port of the first job; each further job uses the next one.
const FIRST_PORT: u16 = 5001;

/// A job that is ready to start: assignments of the ranks, and paths of the flows.
pub(crate) struct Plan {
    pub(crate) assignments: Vec<Assignment>,
    pub(crate) flows: Vec<PlannedFlow>,
}

pub(crate) struct PlannedFlow {
    pub(crate) spec: FlowSpec,
    pub(crate) routed: Routed,
    pub(crate) path: Vec<Hop>,
}

/// Plans all jobs of a scenario, so that no two flows of a host share a port.
pub(crate) fn plan_all(nodes: &Nodes, jobs: &[Job]) -> Result<Vec<Plan>, LabError> {
    let mut next_port = BTreeMap::new();
    let plan = |(index, job)| Planner { nodes, job, index }.plan(&mut next_port);
    jobs.iter().enumerate().map(plan).collect()
}

/// The next free source port of each host.
type NextPort = BTreeMap<NodeId, u16>;

/// A flow before its source port is chosen.
struct Wanted {
    from: Rank,
    to: Rank,
    nth: u32,
    first_port: u16,
}

struct Planner<'c> {
    nodes: &'c Nodes,
    job: &'c Job,
    index: usize,
}

impl Planner<'_> {
    fn plan(&self, next_port: &mut NextPort) -> Result<Plan, LabError> {
        let wanted = self.wanted(next_port)?;
        let chosen = ports::choose(self.job.paths, self.candidates(&wanted)?);
        let chosen = chosen.ok_or_else(|| LabError::NoSuchWay {
            job: self.job.name.clone(),
        })?;
        let flows: Vec<_> = wanted
            .iter()
            .zip(chosen)
            .enumerate()
            .map(|(id, (wanted, Candidate { port, path }))| {
                let FlowKey {
                    source,
                    destination,
                    ..
                } = self.key(wanted, port);
                let Wanted { from, to, nth, .. } = *wanted;
                let spec = FlowSpec {
                    id: id as u32,
                    from,
                    to,
                    nth,
                    source,
                    destination,
                    burst_bytes: self.burst_bytes(&path),
                };
                PlannedFlow {
                    spec,
                    routed: self.routed(wanted, port),
                    path,
                }
            })
            .collect();
        Ok(Plan {
            assignments: self.assignments(&flows),
            flows,
        })
    }

    /// Returns all pairs with traffic, `flows_per_pair` times each.
    fn wanted(&self, next_port: &mut NextPort) -> Result<Vec<Wanted>, LabError> {
        let tried = ports::candidates_per_flow(self.job.paths);
        let mut wanted = Vec::new();
        for (from, to) in self.pairs() {
            let next = next_port
                .entry(self.host(from))
                .or_insert(*wiring::JOB_SOURCE_PORTS.start());
            for nth in 0..self.job.flows_per_pair {
                wanted.push(Wanted {
                    from,
                    to,
                    nth,
                    first_port: *next,
                });
                *next = next
                    .checked_add(tried)
                    .ok_or_else(|| LabError::PortsUsedUp {
                        host: self.nodes.fabric().name(self.host(from)).to_owned(),
                    })?;
            }
        }
        Ok(wanted)
    }

    fn pairs(&self) -> impl Iterator<Item = (Rank, Rank)> {
        let hosts = &self.job.hosts;
        let ranks: BTreeMap<_, _> = hosts.iter().zip((0..).map(Rank::from_index)).collect();
        let traffic = self.job.traffic();
        let pairs: Vec<_> = traffic.pairs().collect();
        pairs
            .into_iter()
            .map(move |(from, to, _)| (ranks[&from], ranks[&to]))
    }

    fn candidates(&self, wanted: &[Wanted]) -> Result<Vec<Vec<Candidate>>, LabError> {
        let tried = ports::candidates_per_flow(self.job.paths);
        let of_flow = |wanted: &Wanted| {
            let ports = wanted.first_port..wanted.first_port + tried;
            let routed = |port| self.routed(wanted, port);
            ports.map(routed).collect::<Vec<_>>()
        };
        let routed: Vec<_> = wanted.iter().flat_map(of_flow).collect();
        let paths = walk::paths(self.nodes, &routed)?;
        let candidates: Vec<_> = routed
            .iter()
            .zip(paths)
            .map(|(routed, path)| Candidate {
                port: routed.flow.source.port(),
                path,
            })
            .collect();
        Ok(candidates
            .chunks(usize::from(tried))
            .map(<[_]>::to_vec)
            .collect())
    }

    fn routed(&self, wanted: &Wanted, port: u16) -> Routed {
        let [from, to] = [wanted.from, wanted.to].map(|rank| self.host(rank));
        Routed {
            flow: self.key(wanted, port),
            from,
            to,
        }
    }

    fn key(&self, wanted: &Wanted, port: u16) -> FlowKey {
        let [from, to] = self.addresses(wanted);
        let (protocol, listens_at) = match self.job.transport {
            Transport::Tcp => (Protocol::Tcp, FIRST_PORT + self.index as u16),
            Transport::Quic => (Protocol::Udp, FIRST_PORT + self.index as u16),
            Transport::Udp4791 => (Protocol::Udp, ROCE_PORT),
        };
        FlowKey {
            protocol,
            source: SocketAddrV4::new(from, port),
            destination: SocketAddrV4::new(to, listens_at),
        }
    }

    /// Returns the addresses of a flow's ends: those of the NICs that it binds, or else of their hosts.
    fn addresses(&self, wanted: &Wanted) -> [Ipv4Addr; 2] {
        let hosts = [wanted.from, wanted.to].map(|rank| self.host(rank));
        match self.job.nics(self.nodes.fabric(), hosts, wanted.nth) {
            Some(nics) => nics.map(|nic| self.nodes.nic_address(nic)),
            None => hosts.map(|host| self.nodes.address(host)),
        }
    }

    /// Returns the number of bytes that the links on the path pass at once.
    fn burst_bytes(&self, path: &[Hop]) -> u64 {
        let fabric = self.nodes.fabric();
        let bursts = path
            .iter()
            .map(|&(_, link)| wiring::burst_bytes(fabric.link(link).rate));
        bursts.max().unwrap_or(0)
    }

    /// Returns the assignment of each rank, with the flows that it sends or receives.
    fn assignments(&self, flows: &[PlannedFlow]) -> Vec<Assignment> {
        let of_rank = |(rank, program)| {
            let rank = Rank::from_index(rank);
            let own = flows.iter().map(|flow| &flow.spec);
            let own = own
                .filter(|spec| spec.from == rank || spec.to == rank)
                .cloned();
            Assignment {
                rank,
                program,
                iterations: self.job.iterations,
                transport: self.job.transport.into(),
                flows: own.collect(),
            }
        };
        self.job
            .programs()
            .into_iter()
            .enumerate()
            .map(of_rank)
            .collect()
    }

    fn host(&self, rank: Rank) -> NodeId {
        self.job.hosts[rank.index()]
    }
}
