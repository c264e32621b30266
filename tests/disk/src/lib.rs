//! The one simulated disk of all tests: files in memory, by the traits that the product writes to.
//!
//! A loss of power leaves of what was not synced some in part and some not at all. Either all of that is left to [`chance`]:
//! sectors of writes, lengths, names, in any order. Or a test goes through all cases itself, by how much of each file is kept:
//! see [`LossyFiles::exact`]. Bits flip in what was synced, and writes go to a wrong place. A full disk takes a part of a
//! write. A sync that fails drops what it was to write, as Linux does.
//!
//! A file has its content twice: as it is found and as it was meant, so that damage is distinguished from what a loss of
//! power may do.

pub mod chance;
mod content;
mod files;
mod platter;

pub use content::Bytes;
pub use files::{LossyFile, LossyFiles, ROOT};
