//! Routes over hosts that are wired to each other.
//!
//! What is meant for a host is split at each host on the way among the lanes that lead on, by
//! weights that depend on the destination alone, so that they fit into a table. No lane leads back:
//! hosts are in an order for each destination, and each hop goes down in it.

mod balance;
mod coins;
mod detours;
mod lanes;
mod order;
mod picked;
mod splits;
mod table;
#[cfg(test)]
mod tests;

pub use balance::{Effort, balanced, balanced_until};
pub use coins::{Change, by_coins};
pub use detours::{Entry, detours};
pub use lanes::Lanes;
pub use order::{Order, up_and_down};
pub use picked::{Known, PathsByPair, all_paths, one_path_each};
pub use splits::{Routes, WeightedPath};
pub use table::Ground;
