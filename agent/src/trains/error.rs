//! Why a train did not go, or nobody knows how it went.

use std::net::SocketAddrV4;

use nix::errno::Errno;
use reweave_agent_core::trains::Refusal;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum TrainError {
    #[error("cannot send trains from UDP port {port}; another program uses it")]
    Open { port: u16, source: Errno },
    #[error("cannot send packets to {to}")]
    Send { to: SocketAddrV4, source: Errno },
    #[error("{to} does not accept trains: run an agent there, or reweave-agent probe --respond")]
    Refused { to: SocketAddrV4 },
    #[error(
        "{to} does not answer: is an agent there, or reweave-agent probe --respond, and does its roster have \
         this host?"
    )]
    Silent { to: SocketAddrV4 },
    #[error("the links of this host are no longer idle")]
    Missed,
    #[error("{to} refuses a train {}", why(*.refusal))]
    Unwilling { to: SocketAddrV4, refusal: Refusal },
}

fn why(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Busy => "now: its links are not idle",
        Refusal::Later => "now: its budget is used up",
        Refusal::Shape => "of that length",
    }
}
