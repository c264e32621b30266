//! What keeps an agent from starting, and how errors are told.

use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use reweave_common::units::Rate;
use reweave_link::LinkError;
use reweave_link::join::JoinError;
use reweave_link::keep::KeepError;
use reweave_link::line::CertificateError;
use thiserror::Error;

use crate::collectives::CollectivesError;
use crate::counters::EthtoolError;
use crate::nccl_conf::ConfError;
use crate::netlink::NetlinkError;
use crate::preflight::PressError;
use crate::probes::ProbeError;
use crate::probing::ProbingError;
use crate::rdma::RdmaError;
use crate::role::UnknownRole;
use crate::switch::{Difference, SwitchError};
use crate::trains::TrainError;
use crate::transport::{NoMarking, TransportError};

#[derive(Debug, Error)]
pub enum AgentError {
    #[error("cannot speak to the kernel")]
    Netlink(#[from] NetlinkError),
    #[error("cannot ask the drivers")]
    Ethtool(#[from] EthtoolError),
    #[error("NCCL is told nothing new")]
    NcclConf(#[from] ConfError),
    #[error("cannot read standard input")]
    Input { source: io::Error },
    #[error("cannot hear jobs")]
    Collectives(#[from] CollectivesError),
    #[error("cannot probe the network")]
    Probe(#[from] ProbeError),
    #[error("cannot probe hosts")]
    Probing(#[from] ProbingError),
    #[error("cannot measure bandwidth by trains")]
    Trains(#[from] TrainError),
    #[error("cannot press the network")]
    Press(#[from] PressError),
    #[error(
        "a job trains on this host, one iteration in {:.0} ms; --force presses it all the same",
        .period.as_secs_f64() * 1e3
    )]
    Training { period: Duration },
    #[error(
        "this host carries {rate} without that, so a job may be running; --force presses it all the same"
    )]
    Carrying { rate: Rate },
    #[error("nothing was sent: --yes says that it may cost that")]
    NotConfirmed,
    #[error("rdma unavailable")]
    Rdma(#[from] RdmaError),
    #[error("nothing came of measuring over RDMA")]
    Unmeasured { source: RdmaError },
    #[error("{host} is no host that is known here; give its IPv4 address")]
    UnknownHost { host: String, source: io::Error },
    #[error("no way leads from here to {host}")]
    NoWay { host: Ipv4Addr, source: io::Error },
    #[error("{address} is no address of this host: a flow is traced where it begins")]
    NotHere {
        address: Ipv4Addr,
        source: io::Error,
    },
    #[error("cannot keep the agent's state")]
    State(#[from] KeepError),
    #[error("cannot clear away what an earlier agent left on this node")]
    Leftovers { source: SwitchError },
    #[error("{host} answers no echo, so how far it is cannot be found out")]
    Untraceable { host: Ipv4Addr },
    #[error("the interfaces in /sys are not those of this network namespace; mount its own there")]
    NoPulse,
    #[error("the agent's loop cannot go on")]
    Loop { source: io::Error },
    #[error("the connection task to the coordinator has ended")]
    LineGone,
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error("cannot join the cluster")]
    Join { source: Box<JoinError> },
    #[error("cannot look for a coordinator")]
    Link { source: Box<LinkError> },
    #[error(transparent)]
    Switch(#[from] SwitchError),
    #[error("cannot read {}", path.display())]
    Desired { path: PathBuf, source: io::Error },
    #[error("nothing was changed, for it does not hold what is expected:\n{difference}")]
    HoldsOther { difference: Difference },
    #[error("nothing was ever applied here by hand")]
    NothingToRevert,
    #[error("cannot write the manual to {}", folder.display())]
    Manual { folder: PathBuf, source: io::Error },
    #[error("cannot change how this host sends")]
    Transport(#[from] TransportError),
    #[error("packets cannot be marked so")]
    NoMarking(#[from] NoMarking),
    #[error("cannot tell what this node is")]
    Role(#[from] UnknownRole),
}

impl AgentError {
    /// 2 for what was asked or given wrongly, 1 for what failed.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::UnknownHost { .. } | Self::Desired { .. } | Self::NoMarking(_) => 2,
            Self::NcclConf(ConfError::NoVariable { .. } | ConfError::Twice { .. }) => 2,
            Self::Certificate(error) if error.is_of_the_folder() => 2,
            _ => 1,
        }
    }
}
