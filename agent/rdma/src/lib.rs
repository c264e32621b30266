//! The helper of an agent: everything that takes the verbs library, and nothing that does not.
//!
//! It is a program of its own because a program that is linked with that library does not start where
//! it is missing. It does what the agent's lines on standard input say, and ends when they end. Two
//! helpers measure the way between them: one asks, the other answers the hosts on its roster.

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
