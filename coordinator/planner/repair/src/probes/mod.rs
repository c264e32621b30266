//! Chooses probe flows: the fewest that cross every link in both directions as often as wanted.
//!
//! If the choices of switches can be computed, each flow is chosen for the links that it crosses. Otherwise, enough
//! source ports are used to cover almost all paths; once they are traced, few of these flows are kept.

mod choices;
mod chosen;
mod cover;
mod distances;
mod tally;
#[cfg(test)]
mod tests;
mod traced;

use reweave_common::ids::NodeId;

pub use chosen::{Candidate, choose};
pub use cover::{Cover, cover};
pub use traced::{Untraced, cover_by};

/// One flow of probes; answers use the reversed ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProbeFlow {
    pub from: NodeId,
    pub to: NodeId,
    pub source_port: u16,
}

/// Returns the number of source ports with which, at this probability, each of `ways` equal-cost paths is used.
pub fn ports_for(ways: usize, probability: f64) -> usize {
    if ways <= 1 {
        return ways;
    }
    // Probability by number of used paths.
    let mut taken = vec![0.0; ways + 1];
    taken[0] = 1.0;
    let mut ports = 0;
    while taken[ways] < probability.min(MAX_PROBABILITY) {
        ports += 1;
        for count in (1..=ways).rev() {
            let known = count as f64 / ways as f64;
            let new = (ways - count + 1) as f64 / ways as f64;
            taken[count] = taken[count] * known + taken[count - 1] * new;
        }
        taken[0] = 0.0;
    }
    ports
}

/// Nothing is surer than this: only infinitely many ports were.
const MAX_PROBABILITY: f64 = 1.0 - 1e-9;
