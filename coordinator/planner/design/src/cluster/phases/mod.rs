//! Shifts the iterations of jobs that share links, so that their peaks alternate.
//!
//! The demand of a job on a link is periodic with its iteration: a circle. Circles of several jobs fit together only if
//! their lengths have a small common multiple; a job is slowed down slightly if needed. The demand above the capacity,
//! summed over the common circle, is linear between shifts at which edges of two jobs' demands meet. So the best shift
//! is one of these: for two and three jobs all are tried; of more jobs, one after another is shifted.

mod together;

pub use together::{Player, Together, together};

use std::collections::BTreeMap;

use serde::Serialize;

/// Demand of a job on a link in a part of its iteration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Piece {
    pub from_us: u64,
    pub to_us: u64,
    pub gbps: f64,
}

/// A job's demand on the links that it shares with others.
#[derive(Debug, Clone, PartialEq)]
pub struct PeriodicDemand {
    pub period_us: u64,
    /// Demand by link, in parts that lie within the period.
    pub demand: BTreeMap<usize, Vec<Piece>>,
}

/// When each job is to begin its iterations.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Phases {
    /// Shift of each job.
    pub shifts_us: Vec<u64>,
    /// Iteration time of each job after the shift: slightly longer if that is needed for a common multiple.
    pub periods_us: Vec<u64>,
    /// After this long all begins again.
    pub circle_us: u64,
    /// Demand above the capacity of links in a full circle, in megabit: without shifts, and with these shifts.
    pub excess_before_mbit: f64,
    pub excess_after_mbit: f64,
}

/// A job may be slowed by this part of its iteration.
const MAX_SLOWDOWN: f64 = 0.05;
/// The common circle is no more than this many iterations of the longest.
const MAX_CIRCLE_ITERATIONS: u64 = 12;

/// Returns periods with a common multiple, none of them shorter than given. The total increase is minimal, then the
/// common multiple. None if there is no such multiple.
pub fn fit(periods_us: &[u64]) -> Option<(u64, Vec<u64>)> {
    let longest = *periods_us.iter().max().filter(|&&longest| longest > 0)?;
    let circles = (1..=MAX_CIRCLE_ITERATIONS).filter_map(|turns| {
        let counts: Vec<_> = periods_us
            .iter()
            .map(|period| longest * turns / period.max(&1))
            .collect();
        // Whole lengths: the circle is a multiple of all counts.
        let step = counts
            .iter()
            .fold(1, |all, count| all / divisor(all, *count) * count);
        let circle = (longest * turns).div_ceil(step) * step;
        let fitted: Vec<_> = counts.iter().map(|count| circle / count).collect();
        let slower = |(fitted, period): (&u64, &u64)| *fitted as f64 / (*period).max(1) as f64;
        let slowed: Vec<_> = fitted.iter().zip(periods_us).map(slower).collect();
        let fits = slowed.iter().all(|&slower| slower <= 1.0 + MAX_SLOWDOWN);
        fits.then(|| (slowed.iter().sum::<f64>(), circle, fitted))
    });
    let (_, circle, fitted) = circles.min_by(|a, b| a.0.total_cmp(&b.0))?;
    Some((circle, fitted))
}

fn divisor(a: u64, b: u64) -> u64 {
    match b {
        0 => a,
        _ => divisor(b, a % b),
    }
}

/// The shifts that leave the least asked for beyond what links carry. Nothing when the jobs' lengths
/// do not fit together: they drift past each other, and no shift holds.
pub fn shift(beats: &[PeriodicDemand], links_gbps: &[f64]) -> Option<Phases> {
    let lengths: Vec<_> = beats.iter().map(|beat| beat.period_us).collect();
    let (circle_us, periods_us) = fit(&lengths)?;
    let mut turning = Turning {
        beats,
        links_gbps,
        periods_us,
        circle_us,
        best: (f64::INFINITY, vec![0; beats.len()]),
    };
    let together = vec![0; beats.len()];
    turning.offer(&together);
    let excess_before_mbit = turning.best.0;
    match beats.len() {
        ..=3 if turning.all_meetings() <= MAX_SHIFT_TRIES => turning.try_all(),
        _ => turning.one_by_one(),
    }
    let (excess_after_mbit, shifts_us) = turning.best;
    Some(Phases {
        shifts_us,
        periods_us: turning.periods_us,
        circle_us,
        excess_before_mbit,
        excess_after_mbit,
    })
}

/// Maximum number of combinations of shifts that are tried.
const MAX_SHIFT_TRIES: usize = 50_000;
/// Maximum number of rounds in which each job is shifted again.
const SHIFT_ROUNDS: usize = 3;

struct Turning<'t> {
    beats: &'t [PeriodicDemand],
    links_gbps: &'t [f64],
    periods_us: Vec<u64>,
    circle_us: u64,
    /// The least excess, and its shifts.
    best: (f64, Vec<u64>),
}

impl Turning<'_> {
    fn offer(&mut self, shifts: &[u64]) {
        let excess = self.excess_mbit(shifts);
        if excess < self.best.0 - 1e-9 {
            self.best = (excess, shifts.to_vec());
        }
    }

    /// Over a whole circle.
    fn excess_mbit(&self, shifts: &[u64]) -> f64 {
        let links = self.links_gbps.iter().enumerate();
        links
            .map(|(link, &gbps)| self.excess_of_link(link, gbps, shifts))
            .sum()
    }

    fn excess_of_link(&self, link: usize, capacity_gbps: f64, shifts: &[u64]) -> f64 {
        let mut changes = Vec::new();
        for (job, &shift) in shifts.iter().enumerate() {
            let pieces = self.beats[job].demand.get(&link);
            for piece in pieces.into_iter().flatten() {
                self.on_circle(job, piece, shift, &mut changes);
            }
        }
        changes.sort_by_key(|change: &(u64, f64)| change.0);
        let (mut at_us, mut gbps, mut excess) = (0, 0.0, 0.0);
        for (next_us, change) in changes {
            excess += f64::max(gbps - capacity_gbps, 0.0) * (next_us - at_us) as f64;
            (at_us, gbps) = (next_us, gbps + change);
        }
        excess / 1e3
    }

    /// Adds a piece once per iteration of its job, in two parts if it crosses the end of the circle.
    fn on_circle(&self, job: usize, piece: &Piece, shift: u64, changes: &mut Vec<(u64, f64)>) {
        let period = self.periods_us[job];
        for turn in 0..self.circle_us / period {
            let from = (turn * period + piece.from_us + shift) % self.circle_us;
            let to = from + (piece.to_us - piece.from_us);
            changes.push((from, piece.gbps));
            if to > self.circle_us {
                changes.push((self.circle_us, -piece.gbps));
                changes.push((0, piece.gbps));
                changes.push((to - self.circle_us, -piece.gbps));
            } else {
                changes.push((to, -piece.gbps));
            }
        }
    }

    fn edges(&self, job: usize, link: usize) -> impl Iterator<Item = u64> {
        let pieces = self.beats[job].demand.get(&link);
        pieces
            .into_iter()
            .flatten()
            .flat_map(|piece| [piece.from_us, piece.to_us])
    }

    /// Shifts of a job at which one of its edges meets one of another job's, which is shifted so.
    fn meetings(&self, job: usize, other: usize, shift: u64) -> Vec<u64> {
        let (own, far) = (self.periods_us[job], self.periods_us[other]);
        // One that shares no link with the other may as well stay.
        let mut meetings = vec![0];
        for link in 0..self.links_gbps.len() {
            for theirs in self.edges(other, link) {
                for turn in 0..self.circle_us / far {
                    let at = turn * far + theirs + shift;
                    meetings.extend(
                        self.edges(job, link)
                            .map(|edge| (at + self.circle_us - edge) % own),
                    );
                }
            }
        }
        meetings.sort_unstable();
        meetings.dedup();
        meetings
    }

    fn all_meetings(&self) -> usize {
        let of = |a, b| {
            if a < self.beats.len() {
                self.meetings(a, b, 0).len().max(1)
            } else {
                1
            }
        };
        match self.beats.len() {
            ..=1 => 1,
            2 => of(1, 0),
            _ => of(1, 0) * of(2, 0) + of(1, 0) * of(2, 1) + of(2, 0) * of(1, 2),
        }
    }

    /// The first stays; the others meet it or each other.
    fn try_all(&mut self) {
        match self.beats.len() {
            ..=1 => {}
            2 => {
                for shift in self.meetings(1, 0, 0) {
                    self.offer(&[0, shift]);
                }
            }
            _ => {
                for (near, far) in [(1, 2), (2, 1)] {
                    for first in self.meetings(near, 0, 0) {
                        let both = [self.meetings(far, 0, 0), self.meetings(far, near, first)];
                        for second in both.concat() {
                            let mut shifts = [0; 3];
                            (shifts[near], shifts[far]) = (first, second);
                            self.offer(&shifts);
                        }
                    }
                }
            }
        }
    }

    fn one_by_one(&mut self) {
        for _ in 0..SHIFT_ROUNDS {
            for job in 1..self.beats.len() {
                let shifts = self.best.1.clone();
                let others = (0..self.beats.len()).filter(|&other| other != job);
                let meetings = others.flat_map(|other| self.meetings(job, other, shifts[other]));
                for shift in meetings.collect::<Vec<_>>() {
                    let mut shifts = shifts.clone();
                    shifts[job] = shift;
                    self.offer(&shifts);
                }
            }
        }
    }
}
