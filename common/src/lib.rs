//! The types shared by all packages of Reweave.
//!
//! This package is pure: no I/O, no clock, no unseeded randomness, no wire format. A value that passes between packages
//! is defined here once. Programs read text files, but their meaning is defined here, so that all programs report the
//! same errors.

pub mod api_version;
pub mod bandwidth;
pub mod cause;
pub mod circuit;
pub mod collective;
pub mod error;
pub mod exit_code;
pub mod explicit_paths;
pub mod fabric;
pub mod finding;
pub mod flow;
pub mod forwarding;
pub mod forwarding_state;
pub mod hardware;
pub mod health;
pub mod ids;
pub mod input;
pub mod instruction;
pub mod iteration;
pub mod lock;
pub mod member;
pub mod migration_plan;
pub mod moment;
pub mod names;
mod nanos;
pub mod observations;
pub mod operator;
pub mod pci;
pub mod periodicity;
pub mod plan;
pub mod printable;
pub mod probing;
pub mod rdma;
pub mod recorded_exchange;
pub mod resource_set;
pub mod routes;
pub mod sample;
pub mod scenario;
pub mod setting_value;
pub mod snapshot;
pub mod split_mix;
pub mod stall;
pub mod time_span;
pub mod timings;
pub mod traffic;
pub mod tree;
pub mod units;
pub mod workload;
