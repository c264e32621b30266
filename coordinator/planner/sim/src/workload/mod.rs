//! Workloads: cost of a job's iteration on a fabric, with a breakdown of the time.
//!
//! An [`Iteration`](reweave_common::iteration::Iteration) has the computations and transfers. A [`Network`] maps
//! transfers to lanes of a fabric. [`simulate`] lowers both to flows with max-min fair shares and to dependent
//! computations, and returns the time of each task; [`evaluate`] adds the breakdown of the time, and lower bounds over
//! all networks.

mod account;
pub mod candidates;
mod choice;
mod collective;
mod critical;
pub mod effects;
mod evaluation;
pub mod history;
pub mod job;
pub mod losses;
mod lowering;
mod network;
mod queues;
mod rank_nics;
pub mod recorded;
mod risks;
mod scheduled;
#[cfg(test)]
mod tests;
pub mod traffic;

pub use choice::{Choice, Choices, Chosen, candidates as algorithms};
pub use evaluation::{Bounds, Evaluation, Exposed, LaneLoad, RankTime, Segment, Stretch, evaluate};
pub use lowering::{SimulationError, Timeline, simulate, simulate_while, simulate_within};
pub use network::{Network, NetworkError, Settings, Spreading, Steps, WIRE_BYTES_PER_PAYLOAD_BYTE};
pub use risks::Risk;
