//! Shared clusters: servers and circuits of each job, waiting jobs, and changes that pay off while jobs run.
//!
//! A [`Ground`] has the resources: blocks of hosts whose ports are on the same optical switches. A [`Fleet`] has the
//! jobs, each with a [`Shard`] of servers and ports of its own. The fleet takes events and returns its actions with
//! reasons.

mod circuits;
mod degree;
mod file;
mod fleet;
mod ground;
mod packing;
pub mod phases;
pub mod regional;
mod seating;
mod shard;
mod splice;
#[cfg(test)]
mod tests;

pub use crate::gain::{Estimate, Gain};
pub use circuits::{Circuit, Laid, Lying, Port, Ports, Room, Touched, lay};
pub use degree::Degree;
pub use file::{ClusterFile, JobEntry};
pub use fleet::{Event, Fleet, Job, Running, Step, Waiting, What};
pub use ground::{Block, Ground, Host, Server, Switching, Trunk};
pub use packing::{Packed, pack};
pub use shard::{Forming, Shard, Spread, Training, Unfit};
