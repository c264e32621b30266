//! Errors of a measurement.

use std::io;
use std::net::Ipv4Addr;

use thiserror::Error;

use crate::meeting::MeetingError;

#[derive(Debug, Error)]
pub(crate) enum RdmaError {
    #[error("cannot list RDMA devices")]
    List { source: io::Error },
    #[error("cannot open {device}; access to /dev/infiniband is required")]
    Open { device: String, source: io::Error },
    #[error("cannot {what}")]
    Verb {
        what: &'static str,
        source: io::Error,
    },
    #[error("no active RDMA port has the RoCE v2 address {address}")]
    NoPort { address: Ipv4Addr },
    #[error("no packet came through: {status}")]
    Work { status: String },
    #[error("{peer} has not sent the address to write to")]
    NoRegion { peer: Ipv4Addr },
    #[error("{peer} has not answered in time")]
    Slow { peer: Ipv4Addr },
    #[error("cannot listen on TCP port {port}; another program uses it, perhaps an agent")]
    Listen { port: u16, source: io::Error },
    #[error(transparent)]
    Meeting(#[from] MeetingError),
}
