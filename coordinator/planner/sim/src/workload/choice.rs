//! Algorithm of each collective of a job.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use reweave_common::ids::Rank;
use reweave_common::iteration::{Iteration, Operation};
use serde::Serialize;

use super::lowering::{Lowering, SimulationError};
use super::network::Network;
use crate::collectives::{Algorithm, Collective, CollectiveError, Method, Schedule, algorithms_of};
use crate::engine::{self, SimTime};

/// Algorithms of a job's collectives, by operation. The default is a ring, and direct for all-to-alls. Rings or trees
/// of the network for a group win.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choices(pub BTreeMap<Operation, Choice>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    Given(Algorithm),
    /// The fastest of these for each group and size, with the fabric to itself.
    Fastest(Vec<Algorithm>),
}

impl Choice {
    fn algorithms(&self) -> &[Algorithm] {
        match self {
            Self::Given(algorithm) => std::slice::from_ref(algorithm),
            Self::Fastest(algorithms) => algorithms,
        }
    }
}

/// All algorithms that do an operation; `group` is that of the hierarchical one.
pub fn candidates(operation: Operation, group: usize) -> Vec<Algorithm> {
    algorithms_of(operation)
        .map(|algorithm| match algorithm {
            Algorithm::Hierarchical { .. } => Algorithm::Hierarchical { group },
            other => other,
        })
        .collect()
}

/// Choice for the groups of one size with this number of bytes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Chosen {
    pub operation: &'static str,
    pub members: usize,
    pub bytes: u64,
    pub algorithm: String,
    /// Number of groups of this size with the choice.
    pub groups: usize,
    /// Time of the slowest of them with the fabric to itself.
    pub alone_ms: f64,
}

/// Algorithm of one collective of one group.
#[derive(Debug)]
pub(super) struct Decision {
    algorithm: Algorithm,
    alone: SimTime,
    /// Sends per byte of the collective, one part after another; absent for the default.
    pub(super) parts: Option<Vec<Schedule>>,
}

impl Decision {
    fn is_faster(&self, other: &Self) -> bool {
        self.alone.seconds() < other.alone.seconds() * MAX_WORTHWHILE_RATIO
    }
}

/// Operation, group and bytes, as bits of the float.
type Question = (Operation, Vec<Rank>, u64);
/// Methods for one byte: larger collectives are proportional.
type Methods = BTreeMap<(Operation, Vec<Rank>, String), Rc<Result<Method, CollectiveError>>>;

/// Cached results for a network.
#[derive(Debug, Default)]
pub(super) struct Findings {
    decisions: RefCell<BTreeMap<Question, Rc<Decision>>>,
    methods: RefCell<Methods>,
}

/// Maximum number of sends in pieces of an iteration, shared by its collectives.
const MAX_SENDS: usize = 1 << 21;
/// Maximum ratio of times at which an algorithm replaces another: less is rounding.
const MAX_WORTHWHILE_RATIO: f64 = 0.9999;
/// Units of work to find what a group does, and to see how long that takes.
const MAX_GIVEN_WORK: u64 = 1 << 34;
/// The same for each algorithm that is only tried.
const MAX_TRIED_WORK: u64 = 1 << 24;

/// Returns the maximum number of sends per collective.
pub(super) fn most_sends(iteration: &Iteration) -> usize {
    MAX_SENDS / iteration.collectives().count().max(1)
}

impl Network<'_> {
    /// Returns none without a requested algorithm. The number of pieces is limited by `most_sends`.
    pub(super) fn decision(
        &self,
        operation: Operation,
        group: &[Rank],
        bytes: f64,
        most_sends: usize,
    ) -> Result<Option<Rc<Decision>>, SimulationError> {
        let choice = self.settings.choices.0.get(&operation);
        let Some(choice) = choice.filter(|_| group.len() > 1 && !self.is_carried(group)) else {
            return Ok(None);
        };
        let question = (operation, group.to_vec(), bytes.to_bits());
        if let Some(known) = self.findings.decisions.borrow().get(&question) {
            return Ok(Some(Rc::clone(known)));
        }
        let deciding = Deciding {
            network: self,
            operation,
            group,
            bytes,
            most_sends,
            limit: match choice {
                Choice::Given(_) => MAX_GIVEN_WORK,
                Choice::Fastest(_) => MAX_TRIED_WORK,
            },
        };
        let decision = Rc::new(deciding.fastest(choice.algorithms())?);
        let mut decisions = self.findings.decisions.borrow_mut();
        decisions.insert(question, Rc::clone(&decision));
        Ok(Some(decision))
    }

    fn is_carried(&self, group: &[Rank]) -> bool {
        self.carriage.forests.contains_key(group) || self.carriage.rings.contains_key(group)
    }

    /// Returns the choices so far, largest collectives first.
    pub(super) fn chosen(&self) -> Vec<Chosen> {
        let mut all: Vec<Chosen> = Vec::new();
        for ((operation, group, bits), decision) in self.findings.decisions.borrow().iter() {
            let one = Chosen {
                operation: operation.name(),
                members: group.len(),
                bytes: f64::from_bits(*bits) as u64,
                algorithm: decision.algorithm.to_string(),
                groups: 1,
                alone_ms: decision.alone.millis(),
            };
            match all.iter_mut().find(|it| it.is_like(&one)) {
                Some(like) => {
                    like.groups += 1;
                    like.alone_ms = like.alone_ms.max(one.alone_ms);
                }
                None => all.push(one),
            }
        }
        all.sort_by_key(|it| std::cmp::Reverse(it.bytes));
        all
    }
}

impl Chosen {
    fn is_like(&self, other: &Self) -> bool {
        let key = |it: &Self| (it.operation, it.members, it.bytes);
        key(self) == key(other) && self.algorithm == other.algorithm
    }
}

struct Deciding<'d, 'n> {
    network: &'d Network<'n>,
    operation: Operation,
    group: &'d [Rank],
    bytes: f64,
    most_sends: usize,
    limit: u64,
}

impl Deciding<'_, '_> {
    fn fastest(&self, algorithms: &[Algorithm]) -> Result<Decision, SimulationError> {
        let mut best: Option<Decision> = None;
        let mut refusal = self.refused(CollectiveError::TooMuchWork { limit: self.limit });
        for &algorithm in algorithms {
            match self.tried(algorithm) {
                Ok(decision) if best.as_ref().is_none_or(|it| decision.is_faster(it)) => {
                    best = Some(decision);
                }
                Ok(_) => {}
                Err(error) if error.is_of_algorithm() => refusal = error,
                Err(error) => return Err(error),
            }
        }
        best.ok_or(refusal)
    }

    fn tried(&self, algorithm: Algorithm) -> Result<Decision, SimulationError> {
        if matches!(algorithm, Algorithm::Ring | Algorithm::Direct) {
            return self.usual(algorithm);
        }
        let method = self.method(algorithm);
        let method = method.as_ref().as_ref();
        let method = method.map_err(|error| self.refused(error.clone()))?;
        let parts = method.in_best_pieces(self.most_sends, |schedule| {
            let parts = std::slice::from_ref(&schedule);
            let time = self.alone(|lowering| lowering.parts(self.group, parts, self.bytes))?;
            Ok::<_, SimulationError>((time, (time, schedule)))
        })?;
        let times = parts.iter().map(|(time, _)| *time);
        Ok(Decision {
            algorithm,
            alone: times.fold(SimTime::ZERO, SimTime::plus),
            parts: Some(parts.into_iter().map(|(_, schedule)| schedule).collect()),
        })
    }

    fn usual(&self, algorithm: Algorithm) -> Result<Decision, SimulationError> {
        let chains = self
            .network
            .chains(self.operation, self.group, self.bytes)?;
        Ok(Decision {
            algorithm,
            alone: self.alone(|lowering| lowering.chains(&chains, Duration::ZERO))?,
            parts: None,
        })
    }

    fn method(&self, algorithm: Algorithm) -> Rc<Result<Method, CollectiveError>> {
        let key = (self.operation, self.group.to_vec(), algorithm.to_string());
        let mut methods = self.network.findings.methods.borrow_mut();
        let method = methods.entry(key).or_insert_with(|| {
            let members: Vec<_> = self.group.iter().map(|&it| self.network.host(it)).collect();
            let collective = Collective {
                fabric: self.network.fabric,
                members: Some(&members),
                operation: self.operation,
                bytes: 1.0,
            };
            Rc::new(Method::of(&collective, algorithm, self.limit))
        });
        Rc::clone(method)
    }

    /// Returns the time with the fabric to itself.
    fn alone<T>(
        &self,
        lay: impl FnOnce(&mut Lowering<'_>) -> Result<T, SimulationError>,
    ) -> Result<SimTime, SimulationError> {
        let mut lowering = Lowering::new(self.network.places(), self.network)?;
        lay(&mut lowering)?;
        Ok(engine::simulate(&lowering.problem, self.limit)?.makespan())
    }

    fn refused(&self, source: CollectiveError) -> SimulationError {
        SimulationError::Collective {
            operation: self.operation,
            source,
        }
    }
}
