//! Devices that cannot run an agent: optical switches, reached over the network.
//!
//! They know no tokens, so a single process speaks to each of them. It never moves a circuit without reading the
//! device first: the expected circuits must be there, and the result is read back. It knows ports and three
//! operations (read, connect, disconnect); nothing else can be asked of a device through it. What to move, and when,
//! is decided elsewhere.

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
