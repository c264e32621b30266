//! Jobs: what a job file says, and the iteration that follows.

mod collectives;
mod file;
mod losses;
pub mod operators;
pub mod preset;

pub use file::{JobFile, PresetJob};
pub use losses::Losses;
