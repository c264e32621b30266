//! Hosts that forward for each other, joined by cables and by fibres through optical switches. The product's core decides,
//! agents and drivers follow it by the product's fences, one step at a time, and each may die before any step.
//!
//! [`cluster`] holds all agents, drivers and devices, [`world`] decides when each does something, and [`laws`] are checked
//! after every event.

pub mod cluster;
pub mod device;
pub mod driver;
pub mod faults;
pub mod laws;
pub mod light;
pub mod node;
mod wishes;
pub mod world;
