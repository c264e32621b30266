//! Parallelizations: how a model is dealt out to servers, searched together with the topology.
//!
//! A model of operators is split operator by operator, by random changes of which the better stay
//! and the worse sometimes do ([`operators`]). A preset is spread by the degrees that its layers and
//! the memory allow ([`presets`]). [`together`] goes to and fro between that and the topology until
//! neither finds anything better.

mod bound;
mod ground;
mod moves;
pub mod operators;
pub mod others;
pub mod presets;
mod room;
#[cfg(test)]
mod tests;
pub mod together;
mod towers;

pub use ground::{Ground, Help, Progress};
