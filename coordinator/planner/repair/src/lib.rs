//! The live planner of the leader: a [`Snapshot`](reweave_common::snapshot::Snapshot) in, findings and a plan out.
//!
//! Everything here is a function of its arguments: [`repair`] returns the findings and the plan that repairs them. Work
//! is bounded by counted evaluations, not by a clock. The plan checker decides with a model of its own whether a plan
//! may be applied.
//!
//! The simulator and the design search share some parts with the leader: paths and the hash of switches, max-min fair
//! rates, tables in text.

pub mod assign;
pub mod causes;
pub mod columns;
pub mod fim;
pub mod maxmin;
mod mend;
pub mod paths;
mod policy;
pub mod probes;
pub mod rebalance;
#[cfg(test)]
mod tests {
    pub(crate) mod scene;
}
mod together;

pub use mend::{
    CollisionRepair, Promise, Suited, Unsuited, predicted, promised, repair, spread, spreads,
    suited,
};
pub use policy::Policy;
pub use together::Together;
