//! Simulated times of flows, collectives and iterations of jobs on a fabric.
//!
//! [`engine`] simulates flows. [`workload`] turns iterations into problems for it, [`collectives`] schedules the
//! traffic of groups. [`tuning`] compares settings of NCCL, [`sandbox`] variants of a cluster. Nothing here reads a
//! live cluster: fabric, job and measurements are arguments, and the same arguments give the same outcome.

pub mod collectives;
pub mod engine;
pub mod sandbox;
pub mod tuning;
pub mod workload;
