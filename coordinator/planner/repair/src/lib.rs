//! What the leader runs live: a [`Snapshot`](reweave_common::snapshot::Snapshot) in, findings and a plan out.
//!
//! Everything here is a function of its arguments: [`repair`] says what is wrong, and what would
//! repair it. Work is bounded by counted evaluations, never by a clock. Whether a plan may be
//! applied is not decided here: the checker does that, with a model of its own.
//!
//! The simulator and the search of designs take from here what the leader needs as well: paths and the
//! switches' hash, max-min fair rates, tables in text.

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
