//! The decisions of an agent, without a kernel, a clock or a network. It computes the rule changes that lead to the
//! desired state, and decides which instructions to follow. It turns counters into rates, selects relevant flows,
//! schedules probes, and evaluates their answers.
//!
//! The agent's shell drives it: it hands in readings, packets and moments, and executes the results.

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
pub mod pci;
pub mod preflight;
pub mod probe;
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
