//! The agent: one module for each kernel interface that it measures with or acts on, and the loop that connects them
//! to the decisions of `agent/core`.
//!
//! It continues without a coordinator: its last pins stay.

pub mod activity;
pub mod agent;
pub mod capabilities;
pub mod clock;
pub mod collectives;
pub mod counters;
#[doc(hidden)]
pub mod decoders;
pub mod eintr;
pub mod error;
pub mod fast_sampling;
pub mod fibres;
pub mod flows;
mod follower;
pub mod host;
pub mod lldp;
pub mod nccl_conf;
pub mod netlink;
pub mod packet_trains;
pub mod path_confirmation;
pub mod preflight;
pub mod probes;
pub mod probing;
mod program;
pub mod rdma;
pub mod role;
pub mod run;
pub mod sampler;
pub mod session;
pub mod state;
pub mod switch;
pub mod traffic;
pub mod transport;
