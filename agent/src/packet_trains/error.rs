//! Why a train was not sent, or has no result.

use std::net::SocketAddrV4;

use nix::errno::Errno;
use reweave_agent_core::packet_trains::TrainRefusal;
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
    Unwilling {
        to: SocketAddrV4,
        refusal: TrainRefusal,
    },
}

fn why(refusal: TrainRefusal) -> &'static str {
    match refusal {
        TrainRefusal::Busy => "now: its links are not idle",
        TrainRefusal::Later => "now: its budget is used up",
        TrainRefusal::Shape => "of that length",
    }
}
