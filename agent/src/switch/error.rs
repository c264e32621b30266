//! Why the desired state could not be installed on a switch.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use reweave_agent_core::switch::Unfit;
use reweave_common::error::error_chain;
use thiserror::Error;

use super::Difference;
use crate::netlink::{ForwardingStateError, NetlinkError, RouteError};

#[derive(Debug, Error)]
pub enum SwitchError {
    #[error(transparent)]
    Kernel(#[from] ForwardingStateError),
    #[error(transparent)]
    Routes(#[from] RouteError),
    #[error("cannot read what the kernel holds")]
    Read(#[from] NetlinkError),
    #[error("{by} does not support these routes")]
    Unfit { by: String, source: Unfit },
    #[error("cannot apply by FRR")]
    Frr(#[from] VtyshError),
    #[error("cannot apply by SONiC")]
    Sonic(#[from] RedisError),
    #[error(
        "the hardware under SONiC does not follow the kernel's rules, so pins have no effect here"
    )]
    NoPins,
    #[error(
        "it accepted the routes, but after {patience:?} the kernel's route to {destination} \
         differs from the desired one"
    )]
    NotInTheKernel {
        destination: Ipv4Addr,
        patience: Duration,
    },
    #[error("rolled back, because the state read back differs:\n{difference}")]
    Elsewhere { difference: Difference },
    #[error("{}; rollback failed too", error_chain(failure))]
    NoWayBack {
        failure: Box<SwitchError>,
        source: Box<SwitchError>,
    },
}

#[derive(Debug, Error)]
pub enum VtyshError {
    #[error("cannot start vtysh; is FRR installed?")]
    Start { source: io::Error },
    #[error("vtysh still runs after {patience:?}; check the daemons of FRR")]
    Hangs { patience: Duration },
    #[error("vtysh says: {words}")]
    Refused { words: String },
}

#[derive(Debug, Error)]
pub enum RedisError {
    #[error("no database listens at {place}")]
    Open { place: String, source: io::Error },
    #[error("the database does not answer")]
    Line(#[from] io::Error),
    #[error("the database refused: {words}")]
    Refused { words: String },
    #[error("cannot parse the answer of the database")]
    Garbled,
    #[error("other writers keep changing the same routes in CONFIG_DB")]
    Contested,
}
