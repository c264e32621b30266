//! The simulated disk: files in memory, by the traits that the product writes to. All tests of what a disk does to durable state
//! use it. The replica's tests have two doubles besides, for what no disk does: compactions that cannot be started, another
//! process that writes between two reads, and a record of how room was asked for.
//!
//! A loss of power leaves of what was not synced some in part and some not at all. Either all of that is left to [`chance`]:
//! sectors of writes, lengths, names, in any order. Or a test goes through all cases itself, by how much of each file is kept:
//! see [`LossyFiles::exact`]. Bits flip in what was synced, and writes go to a wrong place. A full disk takes a part of a
//! write. A sync that fails drops what it was to write, as Linux does.
//! A disk that hangs answers nothing, as a mount whose server is gone.
//!
//! A file has its content twice: what the disk returns and what was written. So damage is distinguished from what a loss of
//! power may do.

pub mod chance;
mod content;
mod files;
mod platter;

pub use content::TrackedBytes;
pub use files::{HangGuard, LossyFile, LossyFiles, ROOT};
