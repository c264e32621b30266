//! Errors of the program as a whole.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use reweave_common::exit_code::{BAD_USAGE, FAILED};
use reweave_common::input::InputError;
use reweave_core::UnreadableLog;
use reweave_link::pki::PkiError;
use reweave_link::{LinkError, PeerRefusal};
use thiserror::Error;

use crate::audit::AuditError;
use crate::data::DataError;
use crate::history::HistoryError;
use crate::recorder::RecordError;
use crate::replay::ReplayError;
use crate::replication::{IntroductionError, ReplicationError};

#[derive(Debug, Error)]
pub(crate) enum CoordinatorError {
    #[error(transparent)]
    Input(#[from] InputError),
    /// What was set does not fit to this machine; the place is the file's, with line and key, or a flag.
    #[error("{place}")]
    Setting {
        place: String,
        source: Box<CoordinatorError>,
    },
    #[error("{address} is already the address for members (listen): joins need another port")]
    JoinPortTaken { address: SocketAddr },
    #[error("the fabric has no optical switch named {name:?}")]
    NoSuchOptical { name: String },
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot use the certificate in {}", folder.display())]
    Identity {
        folder: PathBuf,
        source: Box<PkiError>,
    },
    #[error("{folder} has the certificate of {member}, but a coordinator's is needed")]
    NotACoordinator { folder: String, member: String },
    #[error("the certificate in {} is not valid: {problem}", folder.display())]
    Unaccepted {
        folder: PathBuf,
        problem: PeerRefusal,
    },
    #[error("cannot listen")]
    Listen { source: Box<LinkError> },
    #[error("cannot send the list of revoked members")]
    DenyLists { source: Box<LinkError> },
    #[error("cannot serve health and metrics at {address}")]
    Http {
        address: SocketAddr,
        source: io::Error,
    },
    #[error("cannot serve HTTPS at {address}")]
    Https {
        address: SocketAddr,
        source: io::Error,
    },
    #[error(transparent)]
    Data(#[from] DataError),
    #[error(transparent)]
    Introduction(#[from] IntroductionError),
    #[error(transparent)]
    Replication(#[from] ReplicationError),
    #[error(
        "entry {index} of the log was written by a later version of this program: upgrade this \
         program"
    )]
    UnknownCommand { index: u64, source: postcard::Error },
    #[error(
        "the cluster is at version 1.{version}, but this build reads only 1.{reads}: upgrade it, \
         or start the later build and run `reweave cluster version 1.{reads}` before the downgrade"
    )]
    ClusterVersionTooHigh { version: u16, reads: u16 },
    #[error("a command cannot be written")]
    UnwritableCommand { source: postcard::Error },
    #[error(
        "the snapshot of the leader was written by a later version of this program: upgrade this \
         program"
    )]
    UnknownState { source: postcard::Error },
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error(transparent)]
    Audit(#[from] AuditError),
    #[error(transparent)]
    History(#[from] HistoryError),
    #[error("cannot start {what}")]
    Start {
        what: &'static str,
        source: io::Error,
    },
    #[error("{} is larger than {most_bytes} bytes", path.display())]
    TooLarge { path: PathBuf, most_bytes: u64 },
    #[error("the secret in {} is shorter than {shortest} bytes: `openssl rand -hex 32` makes one", path.display())]
    ShortSecret { path: PathBuf, shortest: usize },
    #[error("cannot set up the HTTP client")]
    Webhooks { source: reqwest::Error },
    #[error("the network socket is gone")]
    SocketGone,
    #[error("the thread that drives the core has died")]
    EventLoopDied,
    #[error(transparent)]
    Replay(#[from] ReplayError),
    #[error("cannot write the manual to {}", folder.display())]
    Manual { folder: PathBuf, source: io::Error },
}

impl From<UnreadableLog> for CoordinatorError {
    fn from(error: UnreadableLog) -> Self {
        match error {
            UnreadableLog::Command { index, source } => Self::UnknownCommand { index, source },
            UnreadableLog::State { source } => Self::UnknownState { source },
            UnreadableLog::ClusterVersion { version, reads } => {
                Self::ClusterVersionTooHigh { version, reads }
            }
        }
    }
}

impl CoordinatorError {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Setting { source, .. } => source.exit_code(),
            Self::Input(_)
            | Self::JoinPortTaken { .. }
            | Self::NoSuchOptical { .. }
            | Self::Read { .. }
            | Self::Identity { .. }
            | Self::NotACoordinator { .. }
            | Self::Unaccepted { .. }
            | Self::TooLarge { .. }
            | Self::ShortSecret { .. }
            | Self::UnknownCommand { .. }
            | Self::ClusterVersionTooHigh { .. }
            | Self::UnknownState { .. }
            | Self::Introduction(IntroductionError::Stranger { .. }) => BAD_USAGE,
            Self::Data(error) if error.is_bad_input() => BAD_USAGE,
            Self::History(error) if error.is_bad_input() => BAD_USAGE,
            Self::Audit(error) if error.is_bad_input() => BAD_USAGE,
            Self::Replay(error) if error.is_bad_input() => BAD_USAGE,
            _ => FAILED,
        }
    }
}
