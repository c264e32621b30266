//! The proof that rates are max-min fair, found from the rates alone.
//!
//! Rates are max-min fair exactly when no link carries more than it can and each flow crosses a
//! full link on which no flow has more per weight. This shares nothing with the solver.

use std::fmt;

use super::problem::{LinkIndex, PathIndex, Problem};

/// The flows on one path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Running {
    pub path: PathIndex,
    pub weight: f64,
    /// Per weight.
    pub rate_bps: f64,
}

/// Parts of a capacity below this are rounding.
const CAPACITY_TOLERANCE: f64 = 1e-9;

/// Reason why rates are not max-min fair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Unfair {
    Overloaded { link: LinkIndex, load_bps: f64 },
    CouldHaveMore { path: PathIndex, rate_bps: f64 },
}

impl fmt::Display for Unfair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overloaded { link, load_bps } => {
                write!(f, "link {link} carries {load_bps} bit/s, more than it can")
            }
            Self::CouldHaveMore { path, rate_bps } => {
                write!(f, "path {path} could have more than {rate_bps} bit/s")
            }
        }
    }
}

/// Checks the certificate.
pub fn check(problem: &Problem, running: &[Running]) -> Result<(), Unfair> {
    let mut loads = vec![0.0; problem.capacities().len()];
    let mut most = vec![0.0f64; loads.len()];
    for flow in running {
        for &link in problem.path(flow.path) {
            loads[link as usize] += flow.weight * flow.rate_bps;
            most[link as usize] = most[link as usize].max(flow.rate_bps);
        }
    }
    let capacity = |link: LinkIndex| problem.capacities()[link as usize].bits_per_s() as f64;
    for (link, &load_bps) in (0..).zip(&loads) {
        if load_bps > capacity(link) * (1.0 + CAPACITY_TOLERANCE) {
            return Err(Unfair::Overloaded { link, load_bps });
        }
    }
    let bounds = |flow: &Running, link: LinkIndex| {
        let full = loads[link as usize] >= capacity(link) * (1.0 - CAPACITY_TOLERANCE);
        full && flow.rate_bps >= most[link as usize] * (1.0 - CAPACITY_TOLERANCE)
    };
    let free = |flow: &&Running| {
        let mut path = problem.path(flow.path).iter();
        !path.any(|&link| bounds(flow, link))
    };
    match running.iter().find(free) {
        Some(&Running { path, rate_bps, .. }) => Err(Unfair::CouldHaveMore { path, rate_bps }),
        None => Ok(()),
    }
}
