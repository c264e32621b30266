//! Devices that cannot run an agent: optical switches, reached from beside.
//!
//! They know no tokens, so one process alone speaks to each of them, and it never moves a circuit
//! without having looked first: what is expected must be there, and what came of it is read back.
//! It knows ports and three verbs (read, connect, disconnect), and nothing else can be asked of a
//! device through it. What to move, and when, is decided elsewhere.

pub mod config;
pub mod device;
pub mod error;
pub mod fence;
pub mod moves;
pub mod operate;
pub mod serve;
pub mod state;

#[cfg(test)]
mod examples;
#[cfg(test)]
mod shape;
#[cfg(test)]
#[path = "../../../proto/src/tests/shapes.rs"]
mod shapes;
