//! The nouns of Reweave, shared by every room.
//!
//! This crate is pure: it has no I/O, no clock, no randomness and no wire format. A value that
//! crosses from one room to another is defined here once. Text files are read by the programs;
//! what their text means is decided here, so that every program refuses the same mistakes with
//! the same words.

pub mod bandwidth;
pub mod carriage;
pub mod cause;
pub mod circuit;
pub mod claims;
pub mod collective;
pub mod course;
pub mod error;
pub mod fabric;
pub mod finding;
pub mod flow;
pub mod forwarding;
pub mod hardware;
pub mod health;
pub mod holding;
pub mod ids;
pub mod input;
pub mod instruction;
pub mod iteration;
pub mod lock;
pub mod member;
pub mod moment;
pub mod names;
mod nanos;
pub mod observations;
pub mod operator;
pub mod plan;
pub mod printable;
pub mod probing;
pub mod rdma;
pub mod recorded;
pub mod rhythm;
pub mod routes;
pub mod sample;
pub mod scenario;
pub mod snapshot;
pub mod stall;
pub mod time_span;
pub mod timings;
pub mod traffic;
pub mod tree;
pub mod units;
pub mod workload;
