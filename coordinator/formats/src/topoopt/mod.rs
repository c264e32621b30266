//! What TopoOpt and FlexFlow write: task graphs and timings of operators.

mod flatbuf;
mod graph;
mod profile;
#[cfg(test)]
mod tests;

pub use graph::{TaskGraph, TaskGraphError};
pub use profile::{ProfileError, read_profile};
