//! Models as graphs of operators, each of which is split over servers of its own.
//!
//! A split divides the batch evenly. A server receives the part of an operator's input that it lacks; in the backward
//! pass the same bytes go in the other direction. Weights that several servers hold are reduced over all of them.

use std::fmt;
use std::time::Duration;

use reweave_common::ids::Rank;
use reweave_common::iteration::{
    Iteration, IterationBuilder, IterationError, Operation, TaskId, TaskWork,
};
use reweave_common::time_span::TimeSpan;
use reweave_common::timings::{Timing, Timings};
use reweave_common::units::Bytes;

use super::preset::nearest_divisor;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operator {
    pub name: String,
    /// Kind of operator in the profile.
    pub timing: String,
    /// The operators whose output it reads; all of them come before it.
    pub inputs: Vec<usize>,
    pub weights: Bytes,
    pub output_per_sample: Bytes,
    /// Servers of the operator, if the file sets them.
    pub servers: Option<Vec<Rank>>,
}

/// A model in the order of its operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    pub name: String,
    /// Samples of an iteration, over all servers.
    pub batch: u64,
    pub operators: Vec<Operator>,
}

/// The servers that an operator is split over: the first has the first part of the batch.
pub type Split = Vec<Rank>;

#[derive(Debug, Clone, PartialEq)]
pub enum OperatorError {
    NoTiming {
        operator: String,
        timing: String,
        /// Nearest kind or split in the profile.
        nearest: Option<String>,
    },
    UnmeasuredSplit {
        operator: String,
        timing: String,
        parts: usize,
        nearest: Option<u32>,
    },
    BadSplit {
        operator: String,
        parts: usize,
        batch: u64,
    },
    NoServer {
        operator: String,
        server: usize,
        servers: usize,
    },
    WrongSplits {
        splits: usize,
        operators: usize,
    },
    NoServers,
    Iteration(IterationError),
}

impl fmt::Display for OperatorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTiming {
                operator,
                timing,
                nearest,
            } => {
                let nearest = nearest.as_deref().unwrap_or("none");
                write!(
                    f,
                    "{operator}: the profile has no timing of {timing}; the nearest that it has is {nearest}"
                )
            }
            Self::UnmeasuredSplit {
                operator,
                timing,
                parts,
                nearest: Some(nearest),
            } => write!(
                f,
                "{operator}: {timing} was not measured on {parts} servers; it was on {nearest}"
            ),
            Self::UnmeasuredSplit {
                operator, timing, ..
            } => write!(
                f,
                "{operator}: {timing} was measured with larger batches only; take a larger one"
            ),
            Self::BadSplit {
                operator,
                parts,
                batch,
            } => write!(
                f,
                "{operator}: a batch of {batch} cannot be split over {parts} servers; {} can share it",
                nearest_divisor(*batch, *parts as u64)
            ),
            Self::NoServer {
                operator,
                server,
                servers,
            } => write!(
                f,
                "{operator} runs on server {server}, and there are {servers}, from 0 on; take {} servers",
                server + 1
            ),
            Self::WrongSplits { splits, operators } => {
                write!(
                    f,
                    "{splits} splits for {operators} operators: plan again for the model as it is"
                )
            }
            Self::NoServers => f.write_str("a job runs on one server or more; take 1"),
            Self::Iteration(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OperatorError {}

/// Rate at which a server reduces received data, in bytes per second, as in the profiles' own simulator.
pub const LOCAL_REDUCE_BYTES_PER_S: f64 = 50e9;

impl Model {
    /// Puts every operator on all servers, as far as it was measured: one with smaller measured splits uses the largest
    /// of those, and operators on one server are assigned in turn.
    pub fn data_parallel(
        &self,
        timings: &Timings,
        servers: usize,
    ) -> Result<Vec<Split>, OperatorError> {
        if servers == 0 {
            return Err(OperatorError::NoServers);
        }
        let mut whole = 0;
        self.operators
            .iter()
            .map(|operator| {
                if let Some(given) = &operator.servers {
                    return there(operator, given, servers);
                }
                let most = timings.splits(&operator.timing).next_back();
                let (most, _) = most.ok_or_else(|| unknown(operator, timings, servers))?;
                let parts = (most as usize).min(servers);
                let first = if parts == 1 { whole % servers } else { 0 };
                whole += usize::from(parts == 1);
                let stride = servers / parts;
                Ok((0..parts)
                    .map(|part| Rank::from_index(first + part * stride))
                    .collect())
            })
            .collect()
    }

    /// One iteration with these splits, one for each operator.
    pub fn iteration(
        &self,
        timings: &Timings,
        splits: &[Split],
        servers: usize,
    ) -> Result<Iteration, OperatorError> {
        if splits.len() != self.operators.len() {
            return Err(OperatorError::WrongSplits {
                splits: splits.len(),
                operators: self.operators.len(),
            });
        }
        let mut building = Building {
            model: self,
            splits,
            builder: IterationBuilder::new(servers),
            forward: Vec::new(),
            backward: Vec::new(),
        };
        building.compute(timings)?;
        building.connect();
        building.reduce();
        building.builder.build().map_err(OperatorError::Iteration)
    }
}

/// The time of one part of an operator that is split this often: as measured, or on the line between two measurements
/// by the size of a part.
pub fn timing(timings: &Timings, kind: &str, parts: u32) -> Option<Timing> {
    if let Some(measured) = timings.get(kind, parts) {
        return Some(measured);
    }
    let below = timings.splits(kind).rfind(|(split, _)| *split < parts)?;
    let above = timings.splits(kind).find(|(split, _)| *split > parts)?;
    let size = |split: u32| 1.0 / f64::from(split);
    let part = (size(parts) - size(above.0)) / (size(below.0) - size(above.0));
    let time = |of: fn(&Timing) -> Duration| {
        let [less, more] = [of(&above.1), of(&below.1)].map(|time| time.as_secs_f64());
        TimeSpan::from_secs_f64(less + part * (more - less)).get()
    };
    Some(Timing {
        forward: time(|timing| timing.forward),
        backward: time(|timing| timing.backward),
        memory: below.1.memory,
    })
}

/// Returns the split of a file, if its servers exist.
fn there(operator: &Operator, given: &[Rank], servers: usize) -> Result<Split, OperatorError> {
    let stranger = given.iter().find(|rank| rank.index() >= servers);
    match stranger {
        None => Ok(given.to_vec()),
        Some(rank) => Err(OperatorError::NoServer {
            operator: operator.name.clone(),
            server: rank.index(),
            servers,
        }),
    }
}

/// Returns the error for a missing timing, with the nearest one: another split, or the kind with the longest common
/// prefix.
fn unknown(operator: &Operator, timings: &Timings, parts: usize) -> OperatorError {
    let (name, timing) = (operator.name.clone(), operator.timing.clone());
    if timings.kinds().any(|kind| kind == timing) {
        let splits = timings.splits(&timing).map(|(split, _)| split);
        return OperatorError::UnmeasuredSplit {
            nearest: splits.min_by_key(|split| split.abs_diff(parts as u32)),
            operator: name,
            timing,
            parts,
        };
    }
    let alike = |kind: &&str| {
        let both = kind.bytes().zip(timing.bytes());
        both.take_while(|(a, b)| a == b).count()
    };
    OperatorError::NoTiming {
        nearest: timings.kinds().max_by_key(alike).map(str::to_owned),
        operator: name,
        timing,
    }
}

struct Building<'b> {
    model: &'b Model,
    splits: &'b [Split],
    builder: IterationBuilder,
    /// By operator and part.
    forward: Vec<Vec<TaskId>>,
    backward: Vec<Vec<TaskId>>,
}

impl Building<'_> {
    fn compute(&mut self, timings: &Timings) -> Result<(), OperatorError> {
        let mut timed = Vec::new();
        for (operator, split) in self.model.operators.iter().zip(self.splits) {
            let parts = split.len();
            if parts == 0 || parts as u64 > self.model.batch {
                return Err(OperatorError::BadSplit {
                    operator: operator.name.clone(),
                    parts,
                    batch: self.model.batch,
                });
            }
            let timing = timing(timings, &operator.timing, parts as u32);
            timed.push(timing.ok_or_else(|| unknown(operator, timings, parts))?);
        }
        for (nth, timing) in timed.iter().enumerate() {
            let tasks = self.parts(nth, "forward", timing.forward);
            self.forward.push(tasks);
        }
        for (nth, timing) in timed.iter().enumerate().rev() {
            let tasks = self.parts(nth, "backward", timing.backward);
            self.backward.push(tasks);
        }
        self.backward.reverse();
        Ok(())
    }

    fn parts(&mut self, nth: usize, name: &str, time: Duration) -> Vec<TaskId> {
        let name = self.builder.name(name);
        let compute = |&rank| self.builder.add(name, TaskWork::Compute { rank, time });
        self.splits[nth].iter().map(compute).collect()
    }

    /// Connects the forward pass in the order of the model, and the backward pass in reverse.
    fn connect(&mut self) {
        for nth in 0..self.model.operators.len() {
            for &input in &self.model.operators[nth].inputs {
                for shared in self.shared(input, nth) {
                    let there = [
                        self.forward[input][shared.from],
                        self.forward[nth][shared.to],
                    ];
                    self.arrow(there, "activations", &shared, [input, nth]);
                }
            }
        }
        for nth in (0..self.model.operators.len()).rev() {
            for part in 0..self.splits[nth].len() {
                self.builder
                    .then(self.forward[nth][part], self.backward[nth][part]);
            }
            for &input in &self.model.operators[nth].inputs {
                for shared in self.shared(input, nth) {
                    let back = [
                        self.backward[nth][shared.to],
                        self.backward[input][shared.from],
                    ];
                    let turned = Shared {
                        from: shared.to,
                        to: shared.from,
                        samples: shared.samples,
                    };
                    self.arrow(back, "gradients", &turned, [nth, input]);
                }
            }
        }
    }

    /// The parts of two operators that have samples in common.
    fn shared(&self, from: usize, to: usize) -> Vec<Shared> {
        let batch = self.model.batch;
        let [froms, tos] = [from, to].map(|operator| self.splits[operator].len() as u64);
        let bounds = |part: u64, parts: u64| [part * batch / parts, (part + 1) * batch / parts];
        let mut shared = Vec::new();
        for part in 0..tos {
            let [begin, end] = bounds(part, tos);
            let mut other = begin * froms / batch;
            while other < froms && bounds(other, froms)[0] < end {
                let [first, last] = bounds(other, froms);
                let samples = last.min(end).saturating_sub(first.max(begin));
                if samples > 0 {
                    shared.push(Shared {
                        from: other as usize,
                        to: part as usize,
                        samples,
                    });
                }
                other += 1;
            }
        }
        shared
    }

    /// Lets one task wait for another, and for what it needs of it where that is elsewhere.
    fn arrow(
        &mut self,
        [before, after]: [TaskId; 2],
        name: &str,
        shared: &Shared,
        [from_operator, to_operator]: [usize; 2],
    ) {
        let from = self.splits[from_operator][shared.from];
        let to = self.splits[to_operator][shared.to];
        let producer = from_operator.min(to_operator);
        let per_sample = self.model.operators[producer].output_per_sample.count();
        let bytes = per_sample.saturating_mul(shared.samples);
        if from == to || bytes == 0 {
            self.builder.then(before, after);
            return;
        }
        let name = self.builder.name(name);
        let bytes = Bytes::new(bytes);
        let transfer = self
            .builder
            .add(name, TaskWork::Transfer { from, to, bytes });
        self.builder.then(before, transfer);
        self.builder.then(transfer, after);
    }

    fn reduce(&mut self) {
        for nth in (0..self.model.operators.len()).rev() {
            let weights = self.model.operators[nth].weights;
            if weights == Bytes::ZERO || self.splits[nth].len() < 2 {
                continue;
            }
            let group = self.builder.group(&self.splits[nth]);
            let operator = &self.model.operators[nth].name;
            let name = self.builder.name(&format!("all-reduce {operator}"));
            let local =
                TimeSpan::from_secs_f64(weights.count() as f64 / LOCAL_REDUCE_BYTES_PER_S).get();
            let all_reduce = self.builder.add(
                name,
                TaskWork::Collective {
                    operation: Operation::AllReduce,
                    group,
                    bytes: weights,
                    local,
                },
            );
            for &part in &self.backward[nth] {
                self.builder.then(part, all_reduce);
            }
        }
    }
}

/// Samples that one part of an operator has and a part of the next one needs.
struct Shared {
    from: usize,
    to: usize,
    samples: u64,
}
