//! The planner: a [`Snapshot`](reweave_common::snapshot::Snapshot) in, findings and a plan out.
//!
//! Everything here is a function of its arguments: [`diagnose`] says what is wrong, [`plan`] what
//! would mend it. Work is
//! bounded by counted evaluations, never by a clock. Whether a plan may be carried out is not
//! decided here: the checker does that, with a model of its own.

pub mod assign;
pub mod causes;
pub mod cluster;
pub mod collectives;
pub mod crew;
mod dice;
pub mod fim;
pub mod gain;
pub mod maxmin;
mod mend;
pub mod parallel;
pub mod paths;
pub mod placement;
mod policy;
pub mod probes;
pub mod rebalance;
pub mod routing;
pub mod sandbox;
pub mod sim;
#[cfg(test)]
mod tests {
    pub(crate) mod scene;
}
mod together;
pub mod topology;
pub mod tuning;
pub mod workload;

pub use mend::{
    Promise, Suited, Unsuited, diagnose, foretold, plan, promised, spread, spreads, suited,
};
pub use policy::Policy;
pub use together::Together;
