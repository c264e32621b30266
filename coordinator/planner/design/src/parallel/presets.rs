//! The spread of a preset: all degrees that its layers, its batch and the memory allow.

use std::fmt;

use reweave_common::iteration::Iteration;
use reweave_common::units::Bytes;
use reweave_sim::workload::job::preset::{Batch, Parallelism, Preset, PresetError, Zero};

use super::ground::{Ground, Progress};
use super::together::{Better, Dealing, Wanted};
use crate::crew;
use crate::topology::TopologyError;

/// Inputs of a search.
#[derive(Debug, Clone)]
pub struct Search {
    /// Preset as in its file, for any number of hosts.
    given: Preset,
    preset: Preset,
    hosts: usize,
    /// Memory of a processor; unlimited if unknown.
    memory: Option<Bytes>,
}

/// Reason why no parallelism fits, and the nearest alternative.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NoRoom {
    pub memory: Bytes,
    /// The least that a processor needs of these, and how.
    pub least: Bytes,
    pub spread: Parallelism,
    /// Number of hosts that would be enough.
    pub hosts: Option<usize>,
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no spread fits into {} of a processor; with {} it needs {}: use processors with that \
             much",
            spelled(self.memory),
            Words(self.spread),
            spelled(self.least)
        )?;
        match self.hosts {
            Some(hosts) => write!(f, ", or {hosts} hosts"),
            None => Ok(()),
        }
    }
}

/// `80.0 GB`, and what is little in smaller units.
pub fn spelled(bytes: Bytes) -> String {
    match bytes.count() {
        few @ 0..1000 => format!("{few} B"),
        few @ 1000..1_000_000 => format!("{:.1} kB", few as f64 / 1e3),
        some @ 1_000_000..100_000_000 => format!("{:.1} MB", some as f64 / 1e6),
        many => format!("{:.1} GB", many as f64 / 1e9),
    }
}

/// Number of candidates that are simulated in parallel.
const PARALLEL_SIMULATIONS: usize = 4;
/// No operator is advised to buy more times the hosts.
const MAX_HOST_FACTOR: usize = 64;

impl Search {
    /// The batch of the whole job stays what it is, however it is spread: iterations of other batches
    /// could not be compared.
    pub fn new(given: &Preset, hosts: usize, memory: Option<Bytes>) -> Self {
        let mut preset = given.clone();
        let ranks = hosts * preset.gpus_per_host;
        let own = &preset.parallelism;
        let each = (own.tensor * own.pipeline).max(1);
        let data = own.data.unwrap_or((ranks / each).max(1));
        if let Batch::PerReplica(samples) = preset.batch {
            preset.batch = Batch::Whole(samples.saturating_mul(data.max(1) as u64));
        }
        preset.parallelism.data = Some(data);
        Self {
            given: given.clone(),
            preset,
            hosts,
            memory,
        }
    }

    /// Returns the batch of the whole job.
    pub fn batch(&self) -> Batch {
        self.preset.batch
    }

    fn ranks(&self) -> usize {
        self.hosts * self.preset.gpus_per_host
    }

    /// The preset, spread so.
    pub fn spread(&self, parallelism: Parallelism) -> Preset {
        let mut spread = self.preset.clone();
        spread.parallelism = parallelism;
        spread
    }

    /// Returns the memory of the fullest processor.
    pub fn needed(&self, parallelism: Parallelism) -> Result<Bytes, PresetError> {
        self.spread(parallelism).memory(self.ranks())
    }

    /// Returns the parallelism of the preset, or the one with the least memory if that does not fit.
    pub fn start(&self) -> Result<Parallelism, TopologyError> {
        let own = self.preset.parallelism;
        let needed = self.needed(own).map_err(TopologyError::Preset)?;
        if self.has_room(needed) {
            return Ok(own);
        }
        let fitting = self.fitting();
        let least = fitting.into_iter().min_by_key(|it| self.needed(*it).ok());
        least.ok_or_else(|| TopologyError::NoRoom(self.no_room(own, needed)))
    }

    /// Returns the parallelism of the preset, without alternatives.
    pub fn kept(&self) -> Result<Parallelism, TopologyError> {
        let (own, instead) = (self.preset.parallelism, self.start()?);
        if own == instead {
            return Ok(own);
        }
        Err(TopologyError::KeptNoRoom {
            needed: self.needed(own).map_err(TopologyError::Preset)?,
            memory: self.memory.unwrap_or_default(),
            instead: Words(instead).to_string(),
        })
    }

    fn has_room(&self, needed: Bytes) -> bool {
        self.memory.is_none_or(|memory| needed <= memory)
    }

    /// Returns every parallelism that fits into the memory. The state is distributed no further than memory requires,
    /// because each stage of that costs traffic.
    pub(super) fn fitting(&self) -> Vec<Parallelism> {
        let zero = |plain: Parallelism| {
            let spreads = zeros(plain).map(|zero| Parallelism { zero, ..plain });
            let mut known = spreads.map_while(|it| Some((it, self.needed(it).ok()?)));
            known
                .find(|(_, needed)| self.has_room(*needed))
                .map(|(it, _)| it)
        };
        self.all().into_iter().filter_map(zero).collect()
    }

    fn all(&self) -> Vec<Parallelism> {
        let Some(columns) = self.preset.columns(self.ranks()) else {
            return all(self.ranks());
        };
        let own = self.preset.parallelism;
        let mut all = vec![own];
        let others = columns.into_iter().filter(|&it| it != own.columns);
        all.extend(others.map(|columns| Parallelism { columns, ..own }));
        all
    }

    fn no_room(&self, own: Parallelism, needed: Bytes) -> NoRoom {
        let (least, spread) = self.least().unwrap_or((needed, own));
        let memory = self.memory.unwrap_or_default();
        let times = std::iter::successors(Some(2), |it| Some(it * 2));
        // A batch of each replica grows with the hosts, as it would if the file were planned for them.
        let more = |times: usize| Self::new(&self.given, self.hosts * times, self.memory);
        let mut more = times.take_while(|it| *it <= MAX_HOST_FACTOR).map(more);
        NoRoom {
            memory,
            least,
            spread,
            hosts: more
                .find(|it| it.least().is_some_and(|(least, _)| least <= memory))
                .map(|it| it.hosts),
        }
    }

    /// The least that a processor can do with, and how.
    fn least(&self) -> Option<(Bytes, Parallelism)> {
        let whole = |plain: Parallelism| {
            let spreads = zeros(plain).map(|zero| Parallelism { zero, ..plain });
            let known = spreads.filter_map(|it| Some((self.needed(it).ok()?, it)));
            known.min_by_key(|(needed, _)| *needed)
        };
        let all = self.all().into_iter().filter_map(whole);
        all.min_by_key(|(needed, _)| *needed)
    }

    /// Each spread with what it takes at least on this ground, the most promising first; when time is up,
    /// those of which that is known.
    fn bounded(&self, ground: &Ground<'_>) -> Vec<(f64, Parallelism)> {
        let bound = |spread: Parallelism| {
            (ground.help.in_time)().then_some(())?;
            let iteration = self.iteration(&spread).ok()?;
            Some((ground.bound_ms(&iteration), spread))
        };
        let bounded = crew::each(ground.help.crew, self.fitting(), bound);
        let mut bounded: Vec<_> = bounded.into_iter().flatten().collect();
        bounded.sort_by(|a, b| a.0.total_cmp(&b.0));
        bounded
    }
}

impl Dealing for Search {
    type Deal = Parallelism;

    fn place(&self) -> Vec<u32> {
        let of_rank = |rank| (rank / self.preset.gpus_per_host) as u32;
        (0..self.ranks()).map(of_rank).collect()
    }

    fn iteration(&self, spread: &Parallelism) -> Result<Iteration, TopologyError> {
        let iteration = self.spread(*spread).iteration(self.ranks());
        iteration.map_err(TopologyError::Preset)
    }

    /// Spreads are simulated in the order of what they take at least, until all that are left take longer than the
    /// best, and each no longer than is of use.
    fn better(
        &self,
        _: &Parallelism,
        ground: &Ground<'_>,
        wanted: Wanted,
    ) -> Result<Better<Parallelism>, TopologyError> {
        let mut timed = Timed::nothing(wanted);
        let bounded = self.bounded(ground);
        let bound_ms = bounded.first().map(|(ms, _)| *ms);
        let bound_ms = bound_ms.filter(|_| (ground.help.in_time)());
        for few in bounded.chunks(PARALLEL_SIMULATIONS) {
            if few[0].0 >= timed.best_ms() {
                break;
            }
            // Simulations that run in parallel cannot use each other's results, in whatever order they end.
            let patience_ms = timed.patience_ms();
            let time = |(least_ms, spread): (f64, Parallelism)| {
                if least_ms > patience_ms {
                    return Ok(Some((spread, None)));
                }
                let ms = ground.time_within(&self.iteration(&spread)?, patience_ms);
                Ok(TopologyError::unless_stopped(ms)?.map(|ms| (spread, ms)))
            };
            let times = crew::each(ground.help.crew, few.to_vec(), time);
            let times = times
                .into_iter()
                .collect::<Result<Vec<_>, TopologyError>>()?;
            timed.add(times.into_iter().flatten(), patience_ms);
            if !(ground.help.go_on)(&timed.progress()) {
                break;
            }
        }
        Ok(Better {
            bound_ms,
            ..timed.better(self.all().len())
        })
    }
}

/// Spreads that were simulated.
struct Timed {
    wanted: Wanted,
    /// The best first.
    known: Vec<(Parallelism, f64)>,
    /// Candidates whose simulation was stopped, with lower bounds of their times.
    late: Vec<(Parallelism, f64)>,
}

impl Timed {
    fn nothing(wanted: Wanted) -> Self {
        Self {
            wanted,
            known: Vec::new(),
            late: Vec::new(),
        }
    }

    fn best_ms(&self) -> f64 {
        self.known.first().map_or(f64::INFINITY, |(_, ms)| *ms)
    }

    /// An iteration time above this is not among the requested best ones.
    fn patience_ms(&self) -> f64 {
        let last = self.wanted.best.checked_sub(1);
        let last = last.and_then(|last| self.known.get(last));
        last.map_or(self.wanted.most_ms, |(_, ms)| ms.min(self.wanted.most_ms))
    }

    fn add(&mut self, times: impl Iterator<Item = (Parallelism, Option<f64>)>, patience_ms: f64) {
        for (spread, ms) in times {
            match ms {
                Some(ms) => self.known.push((spread, ms)),
                None => self.late.push((spread, patience_ms)),
            }
        }
        self.known.sort_by(|a, b| a.1.total_cmp(&b.1));
    }

    fn progress(&self) -> Progress {
        Progress {
            tried: (self.known.len() + self.late.len()) as u32,
            best_ms: self.best_ms().min(self.wanted.most_ms),
        }
    }

    /// Returns the best of `all` candidates.
    fn better(self, all: usize) -> Better<Parallelism> {
        let Progress { tried, .. } = self.progress();
        Better {
            tried,
            all: tried as usize == all,
            bound_ms: None,
            deals: self.known.into_iter().chain(self.late).collect(),
        }
    }
}

/// Slices and experts beyond these are not worth what they exchange.
const MAX_TENSOR_SLICES: usize = 8;
const MAX_EXPERTS: usize = 64;
const MAX_PIPELINE_STAGES: usize = 64;

fn all(ranks: usize) -> Vec<Parallelism> {
    let mut all = Vec::new();
    for tensor in doublings(MAX_TENSOR_SLICES) {
        for pipeline in doublings(MAX_PIPELINE_STAGES) {
            let each = tensor * pipeline;
            if !ranks.is_multiple_of(each) {
                continue;
            }
            let data = ranks / each;
            for expert in doublings(MAX_EXPERTS.min(data)) {
                all.extend(micro(pipeline).into_iter().map(|microbatches| Parallelism {
                    data: Some(data),
                    tensor,
                    pipeline,
                    microbatches,
                    expert,
                    ..Parallelism::default()
                }));
            }
        }
    }
    all
}

fn doublings(most: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(1usize), |it| Some(it * 2)).take_while(move |&it| it <= most)
}

fn micro(pipeline: usize) -> Vec<usize> {
    match pipeline {
        1 => vec![1],
        stages => vec![stages, 2 * stages, 4 * stages],
    }
}

fn zeros(plain: Parallelism) -> impl Iterator<Item = Zero> {
    let stages = if plain.data.unwrap_or(1) > 1 { 4 } else { 1 };
    (0..stages).filter_map(Zero::stage)
}

/// The stage that a job file calls it by.
pub fn stage(zero: Zero) -> u64 {
    (0..4)
        .find(|&stage| Zero::stage(stage) == Some(zero))
        .unwrap_or(0)
}

/// A spread in words.
#[derive(Debug, Clone, Copy)]
pub struct Words(pub Parallelism);

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parallelism {
            data,
            tensor,
            pipeline,
            microbatches,
            expert,
            columns,
            zero,
            ..
        } = self.0;
        write!(f, "data {}", data.unwrap_or(1))?;
        if tensor > 1 {
            write!(f, ", tensor {tensor}")?;
        }
        if pipeline > 1 {
            write!(f, ", pipeline {pipeline} of {microbatches} micro-batches")?;
        }
        if expert > 1 {
            write!(f, ", expert {expert}")?;
        }
        if columns > 1 {
            write!(f, ", columns {columns}")?;
        }
        match stage(zero) {
            0 => Ok(()),
            stage => write!(f, ", zero {stage}"),
        }
    }
}
