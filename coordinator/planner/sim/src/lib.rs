//! How long flows, collectives and iterations of jobs take on a fabric, by simulation.
//!
//! [`engine`] simulates flows. [`workload`] turns iterations into its problems, [`collectives`] schedules what groups
//! send. [`tuning`] compares settings of NCCL, [`sandbox`] variants of a cluster. Nothing here reads a live
//! cluster: fabric, job and measurements are arguments, and the same arguments give the same outcome.

pub mod collectives;
pub mod engine;
pub mod sandbox;
pub mod tuning;
pub mod workload;
