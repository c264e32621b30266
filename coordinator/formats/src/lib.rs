//! Foreign formats: what others wrote of their jobs, networks and measurements, as our own nouns, and our
//! own as others read them.
//!
//! Every importer is a function from bytes to a value or one error that names the place. Files come
//! from anywhere, so nothing in them is believed: each offset and count is checked against the bytes
//! that are there, what is kept is bounded by what was read, nesting is bounded, and nothing in a
//! file is ever executed.

pub mod chakra;
pub mod flight_recorder;
pub mod hostlist;
pub mod kubernetes;
pub mod nccl;
pub mod nccl_inspector;
pub mod nccl_rails;
pub mod nccl_topo;
pub mod optical;
mod pickle;
mod protobuf;
pub mod slurm;
pub mod topoopt;

#[cfg(test)]
mod mutations;
