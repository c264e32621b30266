//! Which ways flows take: as traced, as the hash of their switches has it, or as was learned.

mod atlas;
mod drained;
mod learned;
pub mod linux;
pub mod listed;
#[cfg(test)]
mod tests;

pub use atlas::{Atlas, HopIndex};
pub use drained::drained;
pub use learned::Learned;
