//! Jobs on the simulated network: ranks that compute, send and wait for each other, again and again.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::ids::NodeId;
use reweave_common::moment::Moment;
use reweave_common::scenario::{Job, PathChoice, Transport};
use reweave_common::snapshot::Hop;
use reweave_common::workload::{Program, ProgramStep, Transfer};

use super::network::Network;
use super::network::addresses::rail_address;

/// Maximum number of source ports tried for a flow.
const MAX_PORTS_PER_FLOW: u16 = 64;
const FIRST_PORT: u16 = 10_000;
/// Enough for 32 flows, and for 27 jobs.
const PORTS_PER_JOB: u16 = 32 * MAX_PORTS_PER_FLOW;
const FIRST_SERVICE_PORT: u16 = 5000;

#[derive(Debug, Default)]
pub struct Jobs {
    running: BTreeMap<String, Running>,
    /// Number of started jobs, so that no two use the same ports.
    started: u16,
}

#[derive(Debug)]
struct Running {
    ranks: Vec<RankState>,
    pipes: BTreeMap<[usize; 2], Pipe>,
    iterations: u32,
}

#[derive(Debug)]
struct RankState {
    program: Program,
    step: usize,
    doing: Doing,
    iterations: u32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Doing {
    /// About to take its next step.
    Ready,
    Computing(Moment),
    Exchanging,
}

/// Messages from one rank to another.
#[derive(Debug)]
struct Pipe {
    flows: Vec<FlowKey>,
    /// Bytes that the receiver has waited for since the start.
    awaited_bytes: u64,
}

impl Jobs {
    pub fn start(&mut self, now: Moment, job: &Job, network: &mut Network) {
        let mut pipes = BTreeMap::new();
        let mut ports = Ports::new(job, self.started);
        self.started += 1;
        let programs = job.programs();
        for [from, to] in pairs(&programs) {
            let ends = [job.hosts[from], job.hosts[to]];
            let flows = (0..job.flows_per_pair).map(|nth| ports.flow(network, ends, nth));
            let flows: Vec<_> = flows.collect();
            flows.iter().for_each(|&flow| network.open(flow, ends));
            let awaited_bytes = 0;
            pipes.insert(
                [from, to],
                Pipe {
                    flows,
                    awaited_bytes,
                },
            );
        }
        let rank = |program: Program| RankState {
            program,
            step: 0,
            doing: Doing::Ready,
            iterations: 0,
        };
        let running = Running {
            ranks: programs.into_iter().map(rank).collect(),
            pipes,
            iterations: job.iterations,
        };
        self.running.insert(job.name.clone(), running);
        self.advance(now, network);
    }

    /// Stops a job: its connections close, even with messages in flight.
    pub fn stop(&mut self, name: &str, network: &mut Network) {
        let Some(job) = self.running.remove(name) else {
            return;
        };
        let flows = job.pipes.values().flat_map(|pipe| &pipe.flows);
        flows.for_each(|flow| network.close(flow));
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.running.keys().map(String::as_str)
    }

    /// The flows of a job that runs.
    pub fn flows(&self, name: &str) -> Vec<FlowKey> {
        let pipes = self
            .running
            .get(name)
            .into_iter()
            .flat_map(|job| job.pipes.values());
        pipes.flat_map(|pipe| pipe.flows.iter().copied()).collect()
    }

    /// Returns the number of iterations that all ranks of a job have completed.
    pub fn iterations(&self, name: &str) -> u32 {
        let ranks = self.running[name].ranks.iter();
        let busy = ranks.filter(|rank| !rank.program.is_empty());
        busy.map(|rank| rank.iterations).min().unwrap_or(0)
    }

    /// Advances every rank as far as received messages allow.
    pub fn advance(&mut self, now: Moment, network: &mut Network) {
        for job in self.running.values_mut() {
            let ranks = job.ranks.len();
            while (0..ranks).any(|rank| job.advance(rank, now, network)) {}
        }
    }

    /// When the next computation is over.
    pub fn next_wake(&self) -> Option<Moment> {
        let ranks = self.running.values().flat_map(|job| &job.ranks);
        let ends = ranks.filter_map(|rank| match rank.doing {
            Doing::Computing(until) => Some(until),
            _ => None,
        });
        ends.min()
    }
}

impl Running {
    /// Whether this rank took or ended a step.
    fn advance(&mut self, rank: usize, now: Moment, network: &mut Network) -> bool {
        let state = &self.ranks[rank];
        let is_over = match state.doing {
            Doing::Ready if state.has_done(self.iterations) => return false,
            Doing::Ready => {
                self.ranks[rank].doing = self.begin(rank, now, network);
                return true;
            }
            Doing::Computing(until) => until <= now,
            Doing::Exchanging => self.has_exchanged(rank, network),
        };
        if is_over {
            self.ranks[rank].step_on();
        }
        is_over
    }

    fn begin(&mut self, rank: usize, now: Moment, network: &mut Network) -> Doing {
        let state = &self.ranks[rank];
        match &state.program[state.step] {
            ProgramStep::Compute(time) => Doing::Computing(now + *time),
            ProgramStep::Exchange { sends, receives } => {
                for send in sends {
                    let flows = &self.pipes[&[rank, send.peer.index()]].flows;
                    let parts = send.bytes.split(flows.len());
                    flows
                        .iter()
                        .zip(parts)
                        .for_each(|(flow, part)| network.send(flow, part));
                }
                for receive in receives {
                    let pipe = self.pipes.get_mut(&[receive.peer.index(), rank]);
                    pipe.expect("who is received from sends").awaited_bytes +=
                        receive.bytes.count();
                }
                Doing::Exchanging
            }
        }
    }

    fn has_exchanged(&self, rank: usize, network: &Network) -> bool {
        let state = &self.ranks[rank];
        let ProgramStep::Exchange { sends, receives } = &state.program[state.step] else {
            return false;
        };
        let is_sent = |send: &Transfer| {
            let flows = &self.pipes[&[rank, send.peer.index()]].flows;
            flows.iter().all(|flow| network.is_idle(flow))
        };
        let has_come = |receive: &Transfer| {
            let pipe = &self.pipes[&[receive.peer.index(), rank]];
            let come: f64 = pipe
                .flows
                .iter()
                .map(|flow| network.acked_bytes(flow))
                .sum();
            come >= pipe.awaited_bytes as f64
        };
        sends.iter().all(is_sent) && receives.iter().all(has_come)
    }
}

impl RankState {
    /// A rank without a program has nothing to do at all.
    fn has_done(&self, iterations: u32) -> bool {
        self.program.is_empty() || self.iterations == iterations
    }

    fn step_on(&mut self) {
        self.doing = Doing::Ready;
        self.step += 1;
        if self.step == self.program.len() {
            self.step = 0;
            self.iterations += 1;
        }
    }
}

/// Returns the pairs of ranks that send, without duplicates.
fn pairs(programs: &[Program]) -> Vec<[usize; 2]> {
    let mut pairs = Vec::new();
    for (rank, program) in programs.iter().enumerate() {
        for step in program {
            if let ProgramStep::Exchange { sends, .. } = step {
                pairs.extend(sends.iter().map(|send| [rank, send.peer.index()]));
            }
        }
    }
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}

/// Source ports: the sender's only influence on the paths of its flows.
struct Ports<'j> {
    job: &'j Job,
    service: u16,
    next: u16,
    /// Number of this job's flows on each hop so far.
    loads: BTreeMap<Hop, usize>,
}

impl<'j> Ports<'j> {
    fn new(job: &'j Job, started: u16) -> Self {
        Self {
            job,
            service: FIRST_SERVICE_PORT + started,
            next: FIRST_PORT + started * PORTS_PER_JOB,
            loads: BTreeMap::new(),
        }
    }

    /// The nth flow between these ends.
    fn flow(&mut self, network: &Network, ends: [NodeId; 2], nth: u32) -> FlowKey {
        let addresses = ends.map(|end| rail_address(&network.fabric, end, nth as usize));
        let first = self.next;
        self.next += MAX_PORTS_PER_FLOW;
        let ways = (first..self.next).map(|port| {
            let flow = self.key(addresses, port);
            (network.hashed_path(&flow, ends), flow)
        });
        let (path, flow) = self.choose(ways.collect());
        path.iter()
            .for_each(|&hop| *self.loads.entry(hop).or_default() += 1);
        flow
    }

    fn choose(&self, mut ways: Vec<(Vec<Hop>, FlowKey)>) -> (Vec<Hop>, FlowKey) {
        let passes = |path: &[Hop], node| path.iter().any(|hop| hop.from == node);
        let chosen = match self.job.paths {
            PathChoice::Hash => Some(0),
            PathChoice::Collide => (0..ways.len()).min_by_key(|&way| &ways[way].0),
            PathChoice::Spread => (0..ways.len()).min_by_key(|&way| self.cost(&ways[way].0)),
            PathChoice::Via(node) => ways.iter().position(|(path, _)| passes(path, node)),
        };
        ways.swap_remove(chosen.expect("one of all these ports leads there"))
    }

    fn cost(&self, path: &[Hop]) -> usize {
        let loads = path.iter().map(|hop| self.loads.get(hop).copied());
        loads.map(Option::unwrap_or_default).max().unwrap_or(0)
    }

    fn key(&self, [from, to]: [Ipv4Addr; 2], port: u16) -> FlowKey {
        let (protocol, service) = match self.job.transport {
            Transport::Tcp => (Protocol::Tcp, self.service),
            Transport::Quic => (Protocol::Udp, self.service),
            Transport::Udp4791 => (Protocol::Udp, 4791),
        };
        FlowKey {
            protocol,
            source: SocketAddrV4::new(from, port),
            destination: SocketAddrV4::new(to, service),
        }
    }
}
