//! Whom to probe by which ports: the fewest flows of probes that cross every link both ways as often
//! as is wanted.
//!
//! Where the choices of switches are known, each flow is chosen for the links it crosses there and back. Where they are
//! not, enough source ports are used to leave hardly any path unseen; once they have been traced, few of these flows
//! are left.

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

/// One flow of probes, answered over the ports the other way round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProbeFlow {
    pub from: NodeId,
    pub to: NodeId,
    pub source_port: u16,
}

/// How many source ports it takes until, with this probability, each of `ways` equal paths is taken by one at least.
pub fn ports_for(ways: usize, probability: f64) -> usize {
    if ways <= 1 {
        return ways;
    }
    // By ways taken so far: how likely.
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
