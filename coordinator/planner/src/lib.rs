//! The planner: a [`Snapshot`](reweave_common::snapshot::Snapshot) in, findings and a plan out.
//!
//! Everything here is a function of its arguments: [`diagnose`] says what is wrong, [`plan`] what
//! would mend it. Both judge by one small model, in which flows share links max-min fairly. Work is
//! bounded by counted evaluations, never by a clock. Whether a plan may be carried out is not
//! decided here: the checker does that, with a model of its own.

pub mod assign;
mod balance;
pub mod causes;
pub mod cluster;
pub mod collectives;
pub mod crew;
mod diagnose;
mod dice;
pub mod fim;
mod forecast;
pub mod maxmin;
mod model;
mod observed;
pub mod parallel;
pub mod paths;
pub mod placement;
mod policy;
mod predict;
pub mod probes;
pub mod rebalance;
pub mod routing;
mod search;
pub mod sim;
#[cfg(test)]
mod tests {
    pub(crate) mod scene;
}
pub mod topology;
pub mod tuning;
mod ways;
pub mod workload;

pub use balance::plan;
pub use diagnose::diagnose;
pub use policy::Policy;
