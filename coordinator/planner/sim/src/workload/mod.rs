//! Workloads: what a job's iteration costs on a fabric, and where its time goes.
//!
//! An [`Iteration`](reweave_common::iteration::Iteration) says what is computed and sent. A
//! [`Network`] says over which lanes of a fabric that goes. [`simulate`] lowers both to flows that
//! share lanes max-min fairly and to computations that wait for one another, and gives the time of
//! each task; [`evaluate`] says besides where the time went, and what no network could beat.

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
