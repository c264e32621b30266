//! The search of designs: wirings and their routes, how a job is split and where its ranks run, and how a
//! cluster is divided among jobs.
//!
//! A search proposes, the simulator judges. Work is bounded by counted evaluations, or by the caller's
//! [`InTime`](crew::InTime). Threads are the caller's as well: see [`Crew`](crew::Crew).

pub mod cluster;
pub mod crew;
pub mod gain;
pub mod parallel;
pub mod placement;
pub mod routing;
pub mod topology;
