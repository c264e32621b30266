//! Errors that keep an agent from starting, and the wording of errors.

use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use reweave_common::exit_code::{BAD_USAGE, FAILED};
use reweave_common::units::Rate;
use reweave_link::LinkError;
use reweave_link::durable_files::LockedFolderError;
use reweave_link::join::JoinError;
use reweave_link::uplink::CertificateError;
use thiserror::Error;

use crate::collectives::CollectivesError;
use crate::counters::EthtoolError;
use crate::nccl_conf::ConfError;
use crate::netlink::NetlinkError;
use crate::packet_trains::TrainError;
use crate::preflight::PressError;
use crate::probes::ProbeError;
use crate::probing::ProbingError;
use crate::rdma::RdmaError;
use crate::role::UnknownRole;
use crate::switch::{Difference, SwitchError};
use crate::transport::{NoMarking, TransportError};

#[derive(Debug, Error)]
pub enum AgentError {
    #[error("cannot connect to the kernel")]
    Netlink(#[from] NetlinkError),
    #[error("cannot query the drivers")]
    Ethtool(#[from] EthtoolError),
    #[error("NCCL settings unchanged")]
    NcclConf(#[from] ConfError),
    #[error("cannot read standard input")]
    Input { source: io::Error },
    #[error("cannot listen for jobs")]
    Collectives(#[from] CollectivesError),
    #[error("cannot probe the network")]
    Probe(#[from] ProbeError),
    #[error("cannot probe hosts")]
    Probing(#[from] ProbingError),
    #[error("cannot measure bandwidth by trains")]
    Trains(#[from] TrainError),
    #[error("cannot load the network")]
    Press(#[from] PressError),
    #[error(
        "a job trains on this host, iteration {:.0} ms; --force tests anyway",
        .period.as_secs_f64() * 1e3
    )]
    Training { period: Duration },
    #[error("this host already carries {rate}, so a job may be running; --force tests anyway")]
    Carrying { rate: Rate },
    #[error("nothing was sent: --yes accepts this cost")]
    NotConfirmed,
    #[error("rdma unavailable")]
    Rdma(#[from] RdmaError),
    #[error("RDMA measurement failed")]
    Unmeasured { source: RdmaError },
    #[error("unknown host {host}; give its IPv4 address")]
    UnknownHost { host: String, source: io::Error },
    #[error("no route to {host}")]
    NoWay { host: Ipv4Addr, source: io::Error },
    #[error("{address} is not an address of this host: a flow is traced at its source")]
    NotHere {
        address: Ipv4Addr,
        source: io::Error,
    },
    #[error("cannot keep the agent's state")]
    State(#[from] LockedFolderError),
    #[error("cannot remove leftovers of an earlier agent on this node")]
    Leftovers { source: SwitchError },
    #[error("{host} does not answer ICMP echo, so its distance is unknown")]
    Untraceable { host: Ipv4Addr },
    #[error("the interfaces in /sys are not those of this network namespace; mount its own there")]
    NoPulse,
    #[error("the agent's event loop failed")]
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
    #[error(
        "nothing was changed, because the current state differs from the expected \
             one:\n{difference}"
    )]
    HoldsOther { difference: Difference },
    #[error("no earlier `apply` by hand to revert")]
    NothingToRevert,
    #[error("cannot write the manual to {}", folder.display())]
    Manual { folder: PathBuf, source: io::Error },
    #[error("cannot change how this host sends")]
    Transport(#[from] TransportError),
    #[error("this marking is not possible")]
    NoMarking(#[from] NoMarking),
    #[error("cannot detect the role of this node")]
    Role(#[from] UnknownRole),
}

impl AgentError {
    /// Bad usage or input differs from a failure.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::UnknownHost { .. } | Self::Desired { .. } | Self::NoMarking(_) => BAD_USAGE,
            Self::NcclConf(ConfError::NoVariable { .. } | ConfError::Twice { .. }) => BAD_USAGE,
            Self::Certificate(error) if error.is_of_the_folder() => BAD_USAGE,
            _ => FAILED,
        }
    }
}
