//! A virtual GPU cluster on one Linux machine: real kernels, real sockets, real congestion.
//!
//! Every node of a fabric is a network namespace of its own, every link a pair of virtual
//! interfaces with the link's rate. All of a lab lives in namespaces that vanish with its first
//! process, so a lab leaves nothing behind however it ends.
//!
//! The lab is the independent judge of the product, so it shares no model and no code with it but
//! the nouns of `reweave-common`: interfaces and routes are made by the system's own tools.

mod addressing;
mod artifacts;
mod capture;
pub mod cli;
mod cluster;
mod conduct;
mod detach;
mod enter;
mod error;
mod fabric_file;
mod faults;
mod features;
mod frr;
mod impair;
mod job;
mod launch;
mod limits;
mod management;
mod node;
mod nodes;
mod optical;
mod optics;
mod packet;
mod parallel;
mod progress;
mod rails;
mod report;
mod run;
mod sandbox;
mod sharing;
mod signals;
mod source;
mod state;
mod tool_run;
mod tools;
mod verdict;
mod wiring;
mod worker;

pub use error::LabError;
pub use optical::Refusal as CircuitRefusal;
pub use worker::AssignmentError;
