//! An iteration on a network, as flows and computations that wait for one another.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use reweave_common::ids::{NodeId, Rank};
use reweave_common::iteration::{Iteration, Operation, Task, TaskId, TaskWork};

use super::choice;
use super::collective::{Chain, ChainHop, Piece};
use super::network::{Network, NetworkError, Spreading};
use super::queues::Queues;
use crate::collectives::CollectiveError;
use crate::engine::network::Part;
use crate::engine::{self, PathIndex, Problem, ProblemError, SimError, SimTime, TaskIndex};

/// Reason why no time can be computed.
#[derive(Debug, Clone, PartialEq)]
pub enum SimulationError {
    Network(NetworkError),
    Collective {
        operation: Operation,
        source: CollectiveError,
    },
    Problem(ProblemError),
    Course(SimError),
}

impl SimulationError {
    /// Whether another algorithm of a collective may do what this one cannot.
    pub(super) fn is_of_algorithm(&self) -> bool {
        match self {
            Self::Collective { source, .. } => source.is_of_algorithm(),
            Self::Course(_) => self.is_of_work(),
            Self::Network(_) | Self::Problem(_) => false,
        }
    }

    /// Whether it takes more work than there was for it.
    pub fn is_of_work(&self) -> bool {
        matches!(self, Self::Course(SimError::TooMuchWork { .. }))
    }

    /// Whether the watcher did not want to go on.
    pub fn is_stop(&self) -> bool {
        matches!(self, Self::Course(SimError::Stopped(_)))
    }
}

impl fmt::Display for SimulationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(error) => error.fmt(f),
            Self::Collective { operation, source } => {
                write!(f, "{} of the job: {source}", operation.name())
            }
            Self::Problem(error) => error.fmt(f),
            Self::Course(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SimulationError {}

impl From<NetworkError> for SimulationError {
    fn from(error: NetworkError) -> Self {
        Self::Network(error)
    }
}

impl From<ProblemError> for SimulationError {
    fn from(error: ProblemError) -> Self {
        Self::Problem(error)
    }
}

impl From<SimError> for SimulationError {
    fn from(error: SimError) -> Self {
        Self::Course(error)
    }
}

/// When each task of an iteration could begin, did, and was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeline {
    pub ready: Vec<SimTime>,
    /// A computation may wait for its processor.
    pub start: Vec<SimTime>,
    pub finish: Vec<SimTime>,
    pub end: SimTime,
    pub events: u64,
    /// Units of work that it took to find this out.
    pub work: u64,
}

/// The course of an iteration. More than `limit` units of work is an error.
pub fn simulate(
    iteration: &Iteration,
    network: &Network<'_>,
    limit: u64,
) -> Result<Timeline, SimulationError> {
    simulate_while(iteration, network, limit, &mut || true)
}

/// The same, as long as this says to go on.
pub fn simulate_while(
    iteration: &Iteration,
    network: &Network<'_>,
    limit: u64,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Timeline, SimulationError> {
    let lowered = Lowered::of(iteration, network)?;
    let outcome = engine::watched(&lowered.problem, limit, &mut |_| go_on())?;
    Ok(lowered.timeline(iteration, &outcome))
}

/// The same of an iteration that takes no longer than `most_ms`; nothing of any other.
pub fn simulate_within(
    iteration: &Iteration,
    network: &Network<'_>,
    limit: u64,
    most_ms: f64,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Option<Timeline>, SimulationError> {
    let lowered = Lowered::of(iteration, network)?;
    let most = SimTime::from_seconds(most_ms / 1e3).unwrap_or(SimTime::MAX);
    let outcome = engine::watched_within(&lowered.problem, limit, most, &mut |_| go_on())?;
    Ok(outcome.map(|it| lowered.timeline(iteration, &it)))
}

/// The sim tasks that a task of the iteration became: the first lets the others begin, and the last
/// waits for them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) first: TaskIndex,
    pub(super) last: TaskIndex,
}

pub(super) struct Lowered {
    pub(super) problem: Problem,
    spans: Vec<Span>,
}

impl Lowered {
    pub(super) fn of(
        iteration: &Iteration,
        network: &Network<'_>,
    ) -> Result<Self, SimulationError> {
        if iteration.ranks() > network.places() {
            return Err(SimulationError::Network(NetworkError::TooFewPlaces {
                ranks: iteration.ranks(),
                places: network.places(),
            }));
        }
        let mut lowering = Lowering::new(iteration.ranks(), network)?;
        lowering.most_sends = choice::most_sends(iteration);
        let mut spans = Vec::with_capacity(iteration.tasks().len());
        for (_, task) in iteration.tasks() {
            spans.push(lowering.task(task, iteration)?);
        }
        let mut problem = lowering.problem;
        for (id, task) in iteration.tasks() {
            for next in &task.then {
                problem.add_wait(spans[id.index()].last, spans[next.index()].first)?;
            }
        }
        Ok(Self { problem, spans })
    }

    pub(super) fn timeline(&self, iteration: &Iteration, outcome: &engine::Outcome) -> Timeline {
        let start = |span: &Span| outcome.starts[span.first as usize];
        let finish = |span: &Span| outcome.finishes[span.last as usize];
        let finish: Vec<_> = self.spans.iter().map(finish).collect();
        let mut ready = vec![SimTime::ZERO; finish.len()];
        for (id, task) in iteration.tasks() {
            for next in task.then.iter().map(|next: &TaskId| next.index()) {
                ready[next] = ready[next].max(finish[id.index()]);
            }
        }
        Timeline {
            ready,
            start: self.spans.iter().map(start).collect(),
            end: finish.iter().copied().max().unwrap_or_default(),
            finish,
            events: outcome.events,
            work: outcome.work,
        }
    }
}

/// A path whose links are a path of the problem.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paved {
    pub(super) path: PathIndex,
    pub(super) share: f64,
    pub(super) delay: SimTime,
}

pub(super) struct Lowering<'l> {
    pub(super) network: &'l Network<'l>,
    pub(super) problem: Problem,
    /// Maximum number of sends per collective.
    most_sends: usize,
    /// A path that takes no time, for what only waits.
    nowhere: PathIndex,
    paths: BTreeMap<Vec<u32>, PathIndex>,
    /// Paths by pair of hosts; by pair of ranks if they share a host, have NICs, or each pair has a path of its own.
    known: BTreeMap<(bool, [usize; 2]), Rc<[Paved]>>,
}

impl<'l> Lowering<'l> {
    pub(super) fn new(ranks: usize, network: &'l Network<'l>) -> Result<Self, ProblemError> {
        let mut problem = Problem::new();
        for (lane, &rate) in network.links.capacities().iter().enumerate() {
            problem.add_link(network.goodput(lane, rate))?;
        }
        if let Some(rate) = network.settings.inside {
            for _ in 0..2 * network.places() {
                problem.add_link(rate)?;
            }
        }
        for _ in 0..ranks {
            problem.add_device()?;
        }
        Ok(Self {
            network,
            most_sends: 0,
            nowhere: problem.add_path(&[])?,
            problem,
            paths: BTreeMap::new(),
            known: BTreeMap::new(),
        })
    }

    fn task(&mut self, task: &Task, iteration: &Iteration) -> Result<Span, SimulationError> {
        match task.work {
            TaskWork::Compute { rank, time } => {
                let time = SimTime::from_duration(time);
                let only = self.problem.add_compute(rank.index() as u32, time)?;
                Ok(Span {
                    first: only,
                    last: only,
                })
            }
            TaskWork::Delay { time } => self.pause(time),
            TaskWork::Transfer { from, to, bytes } => {
                let hop = ChainHop {
                    from,
                    to,
                    along: None,
                    backwards: false,
                };
                let piece = Piece {
                    hop,
                    bytes: bytes.count() as f64,
                    flows: 1,
                };
                let chain = Chain {
                    pieces: vec![piece],
                    rounds: 1,
                    messages: 1,
                    crossing: true,
                };
                self.chains(&[chain], Duration::ZERO)
            }
            TaskWork::Collective {
                operation,
                group,
                bytes,
                local,
            } => {
                let group = iteration.group(group);
                self.collective(operation, group, bytes.count() as f64, local)
            }
        }
    }

    /// `local` after what is before it.
    fn collective(
        &mut self,
        operation: Operation,
        group: &[Rank],
        bytes: f64,
        local: Duration,
    ) -> Result<Span, SimulationError> {
        let decision = self
            .network
            .decision(operation, group, bytes, self.most_sends)?;
        let Some(parts) = decision.as_ref().and_then(|it| it.parts.as_deref()) else {
            let chains = self.network.chains(operation, group, bytes)?;
            return self.chains(&chains, local);
        };
        let begun = self.pause(local)?;
        let span = self.parts(group, parts, bytes)?;
        self.problem.add_wait(begun.last, span.first)?;
        Ok(Span {
            first: begun.first,
            ..span
        })
    }

    pub(super) fn pause(&mut self, time: Duration) -> Result<Span, SimulationError> {
        let delay = SimTime::from_duration(time);
        let only = self.problem.add_transfer(self.nowhere, 0.0, delay)?;
        Ok(Span {
            first: only,
            last: only,
        })
    }

    /// All chains at once, `local` after what is before them.
    pub(super) fn chains(
        &mut self,
        chains: &[Chain<'_>],
        local: Duration,
    ) -> Result<Span, SimulationError> {
        let first = self.pause(Duration::ZERO)?.first;
        let last = self.pause(Duration::ZERO)?.last;
        if chains.is_empty() {
            self.problem.add_wait(first, last)?;
        }
        for chain in chains {
            let mut gate = first;
            for round in 1..=chain.rounds {
                let join = if round == chain.rounds {
                    last
                } else {
                    self.pause(Duration::ZERO)?.last
                };
                let delay = if round == 1 { local } else { Duration::ZERO };
                self.round(chain, delay, [gate, join])?;
                gate = join;
            }
        }
        Ok(Span { first, last })
    }

    fn round(
        &mut self,
        chain: &Chain<'_>,
        delay: Duration,
        [gate, join]: [TaskIndex; 2],
    ) -> Result<(), SimulationError> {
        let network = self.network;
        let effects = &network.settings.effects;
        let cold_start = effects.cold_start;
        let longer = if chain.crossing {
            effects.head_of_line
        } else {
            1.0
        };
        let senders = chain.pieces.iter().map(|piece| piece.hop);
        let senders = senders.filter(|hop| !network.passes_no_nic(hop.from, hop.to));
        let mut queues = Queues::new(network, senders.map(|hop| hop.from));
        for Piece { hop, bytes, flows } in &chain.pieces {
            let before_port = queues.arrive(hop.from, hop.to);
            for way in self.paved(hop)?.iter() {
                let midway = queues.pass(hop.from, self.problem.path(way.path), way.share);
                let wait = before_port.plus(midway);
                let bits = self.network.links.bits(bytes * way.share) * longer;
                let messages = way.delay.plus(cold_start).times(chain.messages);
                let delay = SimTime::from_duration(delay).plus(messages).plus(wait);
                let flow = self.problem.add_transfer(way.path, bits, delay)?;
                self.problem.set_weight(flow, *flows)?;
                self.problem.add_wait(gate, flow)?;
                self.problem.add_wait(flow, join)?;
            }
        }
        Ok(())
    }

    pub(super) fn paved(&mut self, hop: &ChainHop<'_>) -> Result<Rc<[Paved]>, SimulationError> {
        let pair = [hop.from, hop.to];
        if let Some(nodes) = hop.along {
            let turned = hop
                .backwards
                .then(|| nodes.iter().rev().copied().collect::<Vec<_>>());
            let nodes = turned.as_deref().unwrap_or(nodes);
            return self.pave(&self.network.along(nodes, pair)?);
        }
        let hosts = pair.map(|rank| self.network.host(rank));
        let of_ranks = hosts[0] == hosts[1]
            || self.network.settings.spreading != Spreading::Even
            || self.network.has_nics_of_ranks();
        let key = if of_ranks {
            pair.map(Rank::index)
        } else {
            hosts.map(NodeId::index)
        };
        let key = (of_ranks, key);
        if let Some(known) = self.known.get(&key) {
            return Ok(Rc::clone(known));
        }
        let paved = self.pave(&self.network.ways(hop.from, hop.to)?)?;
        self.known.insert(key, Rc::clone(&paved));
        Ok(paved)
    }

    fn pave(&mut self, parts: &[Part]) -> Result<Rc<[Paved]>, SimulationError> {
        let mut paved = Vec::with_capacity(parts.len());
        for Part { way, share } in parts {
            let path = match self.paths.get(&way.links) {
                Some(&path) => path,
                None => {
                    let path = self.problem.add_path(&way.links)?;
                    self.paths.insert(way.links.clone(), path);
                    path
                }
            };
            paved.push(Paved {
                path,
                share: *share,
                delay: way.delay,
            });
        }
        Ok(paved.into())
    }
}
