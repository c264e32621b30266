//! Comparison of many plans for a cluster of jobs.
//!
//! A plan has a fabric, places of the jobs, and routing. A [`Judge`] saves work in three ways that do not change the
//! answer. The lowering and the bounds of a job are cached by its places, paths, and the reachable part of the fabric.
//! Jobs that share no lane are simulated separately, so a change requires simulations only of the jobs that it affects.
//! Plans are simulated in the order of their bounds, until no bound is below the best time.

mod part;
mod surroundings;

use std::collections::BTreeMap;
use std::rc::Rc;

use reweave_common::explicit_paths::ExplicitPaths;
use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;
use reweave_common::iteration::Iteration;
use reweave_repair::Together;

use super::lowering::SimulationError;
use super::network::Settings;
use crate::engine::SimTime;
use part::Part;
use surroundings::Surroundings;

/// Place of a job, and its routing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Seat {
    /// A host for each rank.
    pub placement: Vec<NodeId>,
    pub carriage: ExplicitPaths,
}

/// One plan for all jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate<'c> {
    pub fabric: &'c Fabric,
    /// By job.
    pub seats: Vec<Seat>,
}

/// The jobs of a cluster. They have no common clock: all begin an iteration at once.
#[derive(Debug, Clone, Copy)]
pub struct Jobs<'j> {
    pub iterations: &'j [Iteration],
    pub settings: &'j Settings,
    /// Units of work that one simulation may take.
    pub limit: u64,
}

/// Work of the judge so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Effort {
    /// Jobs in places and surroundings that were not known yet.
    pub lowered: u64,
    /// Jobs that were simulated, alone or with the jobs that they share lanes with.
    pub simulated: u64,
    /// Units of work of the simulations.
    pub work: u64,
}

/// The best of some plans.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    pub best: usize,
    /// Iteration time of each job.
    pub times: Vec<SimTime>,
    /// Number of simulated plans.
    pub simulated: usize,
    /// No other plan can be better; else there was no more time to look.
    pub proven: bool,
    /// Plans that cannot be carried out, and why.
    pub refused: Vec<(usize, SimulationError)>,
}

/// Judges plans, and remembers what it has found out.
#[derive(Debug)]
pub struct Judge<'j> {
    jobs: Jobs<'j>,
    surroundings: Surroundings,
    /// Cached parts by job, place and surroundings.
    known: BTreeMap<Standing, usize>,
    parts: Vec<Rc<Part>>,
    remembered: usize,
    /// Cached times of groups of jobs that share lanes.
    times: BTreeMap<Vec<usize>, Rc<[SimTime]>>,
    effort: Effort,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Standing {
    job: usize,
    placement: Vec<NodeId>,
    /// Surroundings of each host of the placement.
    surroundings: Vec<u32>,
    carriage: Vec<u64>,
}

/// Tasks and waits of all parts that are remembered, some 20 bytes each. What is more than that is
/// forgotten, and found out again.
const MAX_CACHED_TASKS: usize = 1 << 24;

impl<'j> Judge<'j> {
    pub fn new(jobs: Jobs<'j>) -> Self {
        Self {
            jobs,
            surroundings: Surroundings::default(),
            known: BTreeMap::new(),
            parts: Vec::new(),
            remembered: 0,
            times: BTreeMap::new(),
            effort: Effort::default(),
        }
    }

    pub fn effort(&self) -> Effort {
        self.effort
    }

    /// Returns the lower bound of the iteration time of each job.
    pub fn bounds(&mut self, candidate: &Candidate<'_>) -> Result<Vec<SimTime>, SimulationError> {
        let parts = self.parts_of(candidate)?;
        Ok(parts.iter().map(|&part| self.parts[part].bound).collect())
    }

    /// Returns the iteration time of each job.
    pub fn times(&mut self, candidate: &Candidate<'_>) -> Result<Vec<SimTime>, SimulationError> {
        let parts = self.parts_of(candidate)?;
        let mut times = vec![SimTime::ZERO; parts.len()];
        for together in self.sharing_lanes(&parts) {
            let of_parts: Vec<_> = together.iter().map(|&job| parts[job]).collect();
            let found = self.times_of(of_parts)?;
            for (&job, &time) in together.iter().zip(found.iter()) {
                times[job] = time;
            }
        }
        Ok(times)
    }

    /// The plan with the least sum of times; of equals, the first. At most `most` plans are
    /// simulated. Nothing when none can be carried out.
    pub fn best(&mut self, candidates: &[Candidate<'_>], most: usize) -> Option<Choice> {
        let mut refused = Vec::new();
        let mut bounded = Vec::with_capacity(candidates.len());
        for (nth, candidate) in candidates.iter().enumerate() {
            match self.bounds(candidate) {
                Ok(bounds) => bounded.push((sum(&bounds), nth)),
                Err(error) => refused.push((nth, error)),
            }
        }
        bounded.sort_unstable();
        let mut best: Option<(SimTime, usize, Vec<SimTime>)> = None;
        let (mut simulated, mut proven) = (0, true);
        for &(bound, nth) in &bounded {
            if best
                .as_ref()
                .is_some_and(|(least, known, _)| (bound, nth) > (*least, *known))
            {
                break;
            }
            if simulated == most {
                proven = false;
                break;
            }
            simulated += 1;
            match self.times(&candidates[nth]) {
                Err(error) => refused.push((nth, error)),
                Ok(times) => {
                    let found = (sum(&times), nth, times);
                    if best
                        .as_ref()
                        .is_none_or(|best| (found.0, found.1) < (best.0, best.1))
                    {
                        best = Some(found);
                    }
                }
            }
        }
        refused.sort_unstable_by_key(|(nth, _)| *nth);
        let (_, best, times) = best?;
        Some(Choice {
            best,
            times,
            simulated,
            proven,
            refused,
        })
    }

    fn parts_of(&mut self, candidate: &Candidate<'_>) -> Result<Vec<usize>, SimulationError> {
        if self.remembered > MAX_CACHED_TASKS {
            self.forget();
        }
        let around = self.surroundings.of(candidate.fabric);
        let jobs = self
            .jobs
            .iterations
            .iter()
            .zip(&candidate.seats)
            .enumerate();
        let mut parts = Vec::with_capacity(candidate.seats.len());
        for (job, (iteration, seat)) in jobs {
            let standing = Standing {
                job,
                placement: seat.placement.clone(),
                surroundings: seat
                    .placement
                    .iter()
                    .map(|host| around[host.index()])
                    .collect(),
                carriage: part::spelled(&seat.carriage),
            };
            if let Some(&part) = self.known.get(&standing) {
                parts.push(part);
                continue;
            }
            let part = Part::of(job, iteration, candidate.fabric, seat, self.jobs.settings)?;
            self.effort.lowered += 1;
            self.remembered += part.size();
            self.known.insert(standing, self.parts.len());
            parts.push(self.parts.len());
            self.parts.push(Rc::new(part));
        }
        Ok(parts)
    }

    fn forget(&mut self) {
        self.remembered = 0;
        self.known.clear();
        self.parts.clear();
        self.times.clear();
        self.surroundings = Surroundings::default();
    }

    /// Groups jobs that share lanes, directly or through others. Each list is in order.
    fn sharing_lanes(&self, parts: &[usize]) -> Vec<Vec<usize>> {
        let mut used: BTreeMap<part::Lane, usize> = BTreeMap::new();
        let mut together = Together::new(parts.len());
        for (job, &part) in parts.iter().enumerate() {
            for &lane in &self.parts[part].lanes {
                let first = *used.entry(lane).or_insert(job);
                together.join(first, job);
            }
        }
        let mut sharing: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for job in 0..parts.len() {
            sharing.entry(together.first(job)).or_default().push(job);
        }
        sharing.into_values().collect()
    }

    fn times_of(&mut self, parts: Vec<usize>) -> Result<Rc<[SimTime]>, SimulationError> {
        if let Some(known) = self.times.get(&parts) {
            return Ok(Rc::clone(known));
        }
        let of: Vec<_> = parts.iter().map(|&part| &*self.parts[part]).collect();
        let (times, work) = part::simulate(&of, self.jobs.limit)?;
        self.effort.simulated += parts.len() as u64;
        self.effort.work += work;
        let times: Rc<[SimTime]> = times.into();
        self.times.insert(parts, Rc::clone(&times));
        Ok(times)
    }
}

fn sum(times: &[SimTime]) -> SimTime {
    times
        .iter()
        .fold(SimTime::ZERO, |sum, &time| sum.plus(time))
}
