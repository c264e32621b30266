//! The agent's helper: everything that needs the verbs library, and nothing else.
//!
//! It is a separate program because a program that is linked with that library does not start without it. It executes
//! the agent's lines on standard input, and ends when they end. Two helpers measure the path between them: one
//! requests, the other answers the hosts on its roster.

pub mod clock;
pub mod link;
pub mod meeting;

#[cfg(feature = "rdma")]
mod error;
#[cfg(feature = "rdma")]
mod measure;
#[cfg(feature = "rdma")]
mod serve;
#[cfg(feature = "rdma")]
mod verbs;
#[cfg(feature = "rdma")]
mod work;
#[cfg(not(feature = "rdma"))]
#[path = "without.rs"]
mod work;

pub use work::Helper;
