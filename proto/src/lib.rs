//! The messages between the parts of Reweave, and their format on the wire.
//!
//! This crate is pure: bytes in, messages out, and the other way round. Transport and the consequences of a message
//! are decided elsewhere. Everything here that crosses the wire is postcard, which has no field names: so none of it
//! may be tagged inside, untagged or skipped. Operators' requests and answers are the values of
//! `reweave_common::operator`, unchanged.

pub mod frame;
pub mod hello;
pub mod message;
pub mod name;
pub mod parts;
pub mod protocol_version;
pub mod since_version;

/// The UDP port a coordinator listens on unless a setting names another.
pub const DEFAULT_PORT: u16 = 7332;

#[cfg(test)]
mod tests;
