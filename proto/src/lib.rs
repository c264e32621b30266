//! What the parts of Reweave say to each other, and how it looks on the wire.
//!
//! This crate is pure: bytes in, messages out, and the other way round. Who carries the bytes is
//! decided elsewhere, and so is what a message leads to. Everything here that crosses the wire is
//! postcard, which knows no field names: so none of it may be tagged inside, untagged or skipped.
//! Operators ask and are answered with the values of `reweave_common::operator`, as they are.

pub mod frame;
pub mod hello;
pub mod message;
pub mod name;
pub mod parts;
pub mod since_version;

/// The UDP port a coordinator listens on unless it is told otherwise.
pub const DEFAULT_PORT: u16 = 7332;

#[cfg(test)]
mod tests;
