//! What can go wrong for the program as a whole.

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use reweave_common::input::InputError;
use reweave_link::LinkError;
use reweave_link::pki::PkiError;
use thiserror::Error;

use crate::data::DataError;
use crate::log::LogError;
use crate::recorder::RecordError;
use crate::replay::ReplayError;

#[derive(Debug, Error)]
pub(crate) enum CoordinatorError {
    #[error(transparent)]
    Input(#[from] InputError),
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot use the certificate in {}", folder.display())]
    Identity {
        folder: PathBuf,
        source: Box<PkiError>,
    },
    #[error("{folder} holds the certificate of {member}, and this program needs a coordinator's")]
    NotACoordinator { folder: String, member: String },
    #[error("cannot listen")]
    Listen { source: Box<LinkError> },
    #[error("cannot serve health and metrics at {address}: give another address with --http")]
    Http {
        address: SocketAddr,
        source: io::Error,
    },
    #[error(transparent)]
    Data(#[from] DataError),
    #[error("cannot keep the log; ending, so that nothing happens that is not in it")]
    Log(#[from] LogError),
    #[error(transparent)]
    Record(#[from] RecordError),
    #[error("cannot start {what}")]
    Start {
        what: &'static str,
        source: io::Error,
    },
    #[error("the network socket is gone")]
    SocketGone,
    #[error("the thread that drives the core has died")]
    DriveDied,
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

impl CoordinatorError {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Input(_)
            | Self::Read { .. }
            | Self::Identity { .. }
            | Self::NotACoordinator { .. } => 2,
            Self::Data(error) if error.is_bad_input() => 2,
            Self::Replay(error) if error.is_bad_input() => 2,
            _ => 1,
        }
    }
}

/// An error with all that led to it, in one line.
pub(crate) fn told(error: &(dyn Error + 'static)) -> String {
    let chain = std::iter::successors(Some(error), |&error| error.source());
    let texts: Vec<_> = chain.map(ToString::to_string).collect();
    texts.join(": ")
}
