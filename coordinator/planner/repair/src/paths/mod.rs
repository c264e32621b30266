//! Paths of flows: traced, computed from the hash of switches, or learned.

mod atlas;
mod drained;
pub mod ecmp;
pub mod flow_row;
mod learned;
pub mod linux;
pub mod listed;
mod remembered;
#[cfg(test)]
mod tests;

pub(crate) use atlas::neighbours;
pub use atlas::{Atlas, Destination, HopIndex};
pub use drained::drained;
pub use learned::Learned;
