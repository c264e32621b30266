//! Routes over directly wired hosts.
//!
//! At each host, the traffic for a destination is split over the lanes that lead on. The weights depend only on the
//! destination, so they fit into a table. No lane leads back: hosts are ordered for each destination, and each hop goes
//! down in that order.

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
