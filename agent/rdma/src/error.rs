//! Why something did not come of it.

use std::error::Error;
use std::io;
use std::net::Ipv4Addr;

use thiserror::Error;

use crate::meeting::MeetingError;

#[derive(Debug, Error)]
pub(crate) enum RdmaError {
    #[error("cannot list RDMA devices")]
    List { source: io::Error },
    #[error("cannot open {device}; it takes access to /dev/infiniband")]
    Open { device: String, source: io::Error },
    #[error("cannot {what}")]
    Verb {
        what: &'static str,
        source: io::Error,
    },
    #[error("no RDMA port has the address {address}, or none that is up, by RoCE v2")]
    NoPort { address: Ipv4Addr },
    #[error("no packet came through: {status}")]
    Work { status: String },
    #[error("{peer} has not said where to write to")]
    NoRegion { peer: Ipv4Addr },
    #[error("{peer} has not answered in time")]
    Slow { peer: Ipv4Addr },
    #[error("cannot listen on TCP port {port}; another program has it, perhaps an agent")]
    Listen { port: u16, source: io::Error },
    #[error(transparent)]
    Meeting(#[from] MeetingError),
}

/// With all that led to it, in one line.
pub(crate) fn told(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        words = format!("{words}: {cause}");
        source = cause.source();
    }
    words
}
