//! Parallelizations: the distribution of a model over servers, searched together with the topology.
//!
//! A model of operators is split operator by operator, by random changes: better ones are kept, and sometimes worse
//! ones ([`operators`]). A preset is distributed by the degrees that its layers and the memory allow ([`presets`]).
//! [`together`] alternates between parallelism and topology until neither improves.

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
