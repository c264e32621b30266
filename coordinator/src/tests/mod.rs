//! The program's parts together, without a network.

mod driving;
mod replaying;
pub(crate) mod scene;
