//! Jobs: what a job file says, and the iteration that follows.

mod collectives;
mod file;
pub mod operators;
pub mod preset;

pub use file::{JobFile, PresetJob};
