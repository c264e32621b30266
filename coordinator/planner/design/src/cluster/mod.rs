//! Shared clusters: which job has which servers, over which circuits they reach each other, who
//! waits, and what is worth changing while jobs run.
//!
//! A [`Ground`] is what there is: blocks of hosts whose ports lie on the same optical switches. A
//! [`Fleet`] is what runs on it: each job has a [`Shard`], servers and ports that are its own. The
//! fleet takes what happens, job by job, and answers with what it does about it and why.

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
