//! What an agent decides, without a kernel, a clock or a network: which rules to change so that
//! the kernel holds what it shall, which instructions to follow, what growing counters say of rates, which
//! flows matter, and what to probe next and what the answers mean.
//!
//! All of it is driven by the agent's shell, which hands in readings, packets and moments, and
//! carries out what it is told.

pub mod collectives;
pub mod counter_delta;
pub mod counters;
pub mod delta;
pub mod fence;
pub mod flows;
mod grant;
pub mod iteration_detector;
pub mod latency;
pub mod links;
pub mod packet_trains;
pub mod path_confirmation;
pub mod preflight;
pub mod probe;
pub mod random;
pub mod rates;
pub mod rdma;
pub mod reconcile;
pub mod spare;
pub mod switch;
pub mod trace;
pub mod traffic;

#[cfg(test)]
mod examples;
#[cfg(test)]
mod seeded;
#[cfg(test)]
mod shape;
#[cfg(test)]
#[path = "../../../proto/src/tests/shapes.rs"]
mod shapes;
