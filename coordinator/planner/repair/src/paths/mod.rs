//! Which ways flows take: as traced, as the hash of their switches has it, or as was learned.

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
pub use atlas::{Atlas, HopIndex};
pub use drained::drained;
pub use learned::Learned;
