//! Why a switch could not be made to hold what it shall.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use reweave_agent_core::switch::Unfit;
use reweave_common::error::told;
use thiserror::Error;

use super::Difference;
use crate::netlink::{HoldError, NetlinkError, RouteError};

#[derive(Debug, Error)]
pub enum SwitchError {
    #[error(transparent)]
    Kernel(#[from] HoldError),
    #[error(transparent)]
    Routes(#[from] RouteError),
    #[error("cannot read what the kernel holds")]
    Read(#[from] NetlinkError),
    #[error("{by} cannot have these routes")]
    Unfit { by: String, source: Unfit },
    #[error("cannot have FRR do it")]
    Frr(#[from] VtyshError),
    #[error("cannot have SONiC do it")]
    Sonic(#[from] RedisError),
    #[error(
        "the hardware under SONiC does not follow the kernel's rules, so no flow can be pinned here"
    )]
    NoPins,
    #[error(
        "it took the routes, but {patience:?} later the kernel does not hold what it shall to {destination}"
    )]
    NotInTheKernel {
        destination: Ipv4Addr,
        patience: Duration,
    },
    #[error("it was rolled back, for read back it held something else:\n{difference}")]
    Elsewhere { difference: Difference },
    #[error("{}; going back failed too", told(failure))]
    NoWayBack {
        failure: Box<SwitchError>,
        source: Box<SwitchError>,
    },
}

#[derive(Debug, Error)]
pub enum VtyshError {
    #[error("cannot start vtysh; is FRR installed?")]
    Start { source: io::Error },
    #[error("vtysh has not ended after {patience:?}; does a daemon of FRR hang?")]
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
    #[error("what the database answers is not understood")]
    Garbled,
    #[error("others change the same routes in CONFIG_DB all the time")]
    Contested,
}
