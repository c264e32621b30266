//! Parallelization and topology in turn.

#[cfg(test)]
mod tests;

use reweave_common::iteration::Iteration;
use reweave_sim::workload::Settings;

use super::ground::{Ground, Help, Progress};
use crate::topology::{self, Job, Proposal, Request, TopologyError};

/// A job that can be distributed over hosts in several ways.
pub trait Dealing {
    /// A distribution over hosts.
    type Deal: Clone + PartialEq;

    /// On which host each rank runs.
    fn place(&self) -> Vec<u32>;

    fn iteration(&self, deal: &Self::Deal) -> Result<Iteration, TopologyError>;

    /// Returns better distributions on this fabric, starting from one, best first.
    fn better(
        &self,
        from: &Self::Deal,
        ground: &Ground<'_>,
        wanted: Wanted,
    ) -> Result<Better<Self::Deal>, TopologyError>;
}

/// Candidates whose iteration time must be exact.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wanted {
    /// Number of best candidates.
    pub best: usize,
    /// Upper limit of their time.
    pub most_ms: f64,
}

/// Distributions, best first.
#[derive(Debug, Clone, PartialEq)]
pub struct Better<D> {
    /// Each with the milliseconds of an iteration, or what it takes at least where it was not asked for.
    pub deals: Vec<(D, f64)>,
    /// Whether there are no others.
    pub all: bool,
    /// Number of simulated candidates.
    pub tried: u32,
    /// Lower bound over all distributions and wirings; none if it is unknown.
    pub bound_ms: Option<f64>,
}

impl<D> Better<D> {
    /// There was no time to find any.
    pub(super) fn nothing() -> Self {
        Self {
            deals: Vec::new(),
            all: false,
            tried: 0,
            bound_ms: None,
        }
    }
}

/// A topology, and the distribution for which it was made.
#[derive(Debug)]
pub struct Pairing<D> {
    pub proposal: Proposal,
    pub deal: D,
    /// Iteration times: with the requested distribution, and after each improvement.
    pub course: Vec<f64>,
    pub tried: u32,
    /// Lower bound over all searched distributions and all wirings of these ports; none if the time was up.
    pub bound_ms: Option<f64>,
}

/// Maximum number of turns between topology and distribution.
const MAX_TURNS: usize = 6;
/// Maximum number of distributions per turn for which a topology is searched.
const MAX_CANDIDATES_PER_TURN: usize = 3;
/// Maximum ratio of times at which a turn is worth another.
const MAX_WORTHWHILE_RATIO: f64 = 0.998;
/// Least ratio of the iteration time with any topology to that on the ideal switch, except for the savings of hosts
/// that reduce as one ([`Searching::least_part`]).
const MIN_IDEAL_RATIO: f64 = 0.98;

/// Rounding error of a division and its inverse product.
const ROUNDING_RATIO: f64 = 1.0 + 1e-9;

/// Searches the best distribution with its best topology until the time is up, starting from this one. The result is
/// never slower.
pub fn search<M: Dealing>(
    model: &M,
    start: M::Deal,
    settings: &Settings,
    request: &Request,
    help: Help<'_>,
) -> Result<Pairing<M::Deal>, TopologyError> {
    let searching = Searching {
        model,
        settings,
        // The interval is computed only for the final result.
        request: &Request {
            interval: false,
            ..request.clone()
        },
        help,
    };
    let (first, is_all) = searching.with(&start, |job, request| {
        topology::plan_first(job, request, help.crew, help.in_time)
    })?;
    let start_on_switch_ms = first.ideal.iteration_ms;
    let mut pairing = Pairing::new(first, start.clone());
    let mut known = vec![start];
    for turn in 0..MAX_TURNS {
        if !(help.in_time)() {
            break;
        }
        let before = pairing.proposal.evaluation.iteration_ms;
        let ground = searching.ground(&pairing.proposal, turn)?;
        let better = model.better(&pairing.deal, &ground, searching.wanted(&pairing, turn))?;
        pairing.tried += better.tried;
        pairing.bound_ms = pairing.bound_ms.or(better.bound_ms);
        let all_are_known = searching.promising(better, turn == 0, &mut pairing, &mut known)?;
        if turn == 0 && !is_all {
            searching.start_again(&known[0], start_on_switch_ms, &mut pairing)?;
        }
        let progress = Progress {
            tried: pairing.tried,
            best_ms: pairing.proposal.evaluation.iteration_ms,
        };
        if !(help.go_on)(&progress) {
            break;
        }
        // The first turn is on the switch, and the next may still gain on the topology.
        let after = pairing.proposal.evaluation.iteration_ms;
        let is_still = turn > 0 && after >= before * MAX_WORTHWHILE_RATIO;
        if all_are_known || is_still {
            break;
        }
    }
    Ok(pairing)
}

struct Searching<'s, M> {
    model: &'s M,
    settings: &'s Settings,
    request: &'s Request,
    help: Help<'s>,
}

impl<'s, M: Dealing> Searching<'s, M> {
    /// Calls `then` with the job in this distribution.
    fn with<R>(
        &self,
        deal: &M::Deal,
        plan: impl FnOnce(&Job<'_>, &Request) -> Result<R, TopologyError>,
    ) -> Result<R, TopologyError> {
        let job = Job {
            iteration: &self.model.iteration(deal)?,
            place: &self.model.place(),
            settings: self.settings,
        };
        plan(&job, self.request)
    }

    /// Makes topologies for the most promising distributions. Returns whether no other can be better: all have a
    /// topology, or are too slow even on the ideal switch.
    fn promising(
        &self,
        better: Better<M::Deal>,
        on_switch: bool,
        pairing: &mut Pairing<M::Deal>,
        known: &mut Vec<M::Deal>,
    ) -> Result<bool, TopologyError> {
        let mut all = better.all;
        for (nth, (deal, ms)) in better.deals.into_iter().enumerate() {
            let least_ms = if on_switch {
                ms * self.least_part()
            } else {
                0.0
            };
            // Planning the same input again gives the same result.
            if least_ms >= pairing.proposal.evaluation.iteration_ms || known.contains(&deal) {
                continue;
            }
            if nth >= MAX_CANDIDATES_PER_TURN || !(self.help.in_time)() {
                all = false;
                continue;
            }
            let Help { crew, in_time, .. } = self.help;
            let next = self.with(&deal, |job, request| {
                topology::plan_in_time(job, request, crew, in_time)
            })?;
            match next {
                Some(next) => pairing.take_if_better(next, deal.clone()),
                None => all = false,
            }
            known.push(deal);
        }
        Ok(all)
    }

    /// The topology of the requested distribution was the most promising one. Other topologies are tried as long as
    /// that distribution may be the best.
    fn start_again(
        &self,
        start: &M::Deal,
        on_switch_ms: f64,
        pairing: &mut Pairing<M::Deal>,
    ) -> Result<(), TopologyError> {
        let best_ms = pairing.proposal.evaluation.iteration_ms;
        let is_hopeless = on_switch_ms * self.least_part() >= best_ms;
        if pairing.deal != *start && is_hopeless {
            return Ok(());
        }
        let Help { crew, in_time, .. } = self.help;
        let whole = self.with(start, |job, request| {
            topology::plan_in_time(job, request, crew, in_time)
        })?;
        if let Some(whole) = whole {
            pairing.start_with(whole, start);
        }
        Ok(())
    }

    /// Candidates that are slow even on the ideal switch need no exact time.
    fn wanted(&self, pairing: &Pairing<M::Deal>, turn: usize) -> Wanted {
        let ms = pairing.proposal.evaluation.iteration_ms;
        Wanted {
            best: MAX_CANDIDATES_PER_TURN,
            most_ms: match turn {
                0 => ms / self.least_part() * ROUNDING_RATIO,
                _ => f64::INFINITY,
            },
        }
    }

    /// On the switch a ring visits all ranks, and each sends all parts but one. On a topology the ranks of a host
    /// reduce among themselves first.
    fn least_part(&self) -> f64 {
        let others = |count: usize| 1.0 - 1.0 / count.max(2) as f64;
        let (hosts, ranks) = (self.request.limits.hosts(), self.model.place().len());
        MIN_IDEAL_RATIO * (others(hosts) / others(ranks)).min(1.0)
    }

    fn ground(&self, proposal: &Proposal, turn: usize) -> Result<Ground<'s>, TopologyError> {
        let place = self.model.place();
        match turn {
            0 => Ground::ideal(place, self.settings, self.request, self.help),
            _ => Ground::found(proposal, place, self.settings, self.request, self.help),
        }
    }
}

impl<D: Clone + PartialEq> Pairing<D> {
    fn new(proposal: Proposal, deal: D) -> Self {
        Self {
            course: vec![proposal.evaluation.iteration_ms],
            proposal,
            deal,
            tried: 0,
            bound_ms: None,
        }
    }

    /// Restarts as if this were the first result.
    fn start_with(&mut self, whole: Proposal, start: &D) {
        let ms = whole.evaluation.iteration_ms;
        self.course[0] = ms;
        if self.deal == *start || ms <= self.proposal.evaluation.iteration_ms {
            self.course.truncate(1);
            self.deal = start.clone();
            self.proposal = whole;
        }
    }

    fn take_if_better(&mut self, next: Proposal, deal: D) {
        let ms = next.evaluation.iteration_ms;
        if ms < self.proposal.evaluation.iteration_ms {
            self.course.push(ms);
            self.proposal = next;
            self.deal = deal;
        }
    }
}
