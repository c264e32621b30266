//! What can go wrong for the commands.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use reweave_common::operator::{Refused, Response};
use reweave_common::plan::Generation;
use reweave_link::pki::PkiError;
use reweave_link::{LinkError, reason};
use thiserror::Error;

use crate::ask;

#[derive(Debug, Error)]
pub(crate) enum CliError {
    #[error(
        "no identity: name the folder of an operator's certificate with --identity or \
         REWEAVE_IDENTITY (`reweave cluster init` makes one)"
    )]
    NoIdentity,
    #[error("cannot use the identity in {}", folder.display())]
    Identity {
        folder: PathBuf,
        source: Box<PkiError>,
    },
    #[error("cannot find {name}: write --coordinator as ADDRESS, ADDRESS:PORT or NAME:PORT")]
    NoSuchAddress { name: String, source: io::Error },
    #[error("cannot reach the coordinator at {address}")]
    Reach {
        address: SocketAddr,
        source: Box<LinkError>,
    },
    #[error("the coordinator did not answer")]
    Ask(#[source] Box<LinkError>),
    #[error("the coordinator did not answer within {} s", ask::PATIENCE.as_secs())]
    NoAnswer,
    #[error("{0}")]
    Refused(Refused),
    #[error("the coordinator gave an answer that fits no question: {answer}")]
    Unexpected { answer: String },
    #[error(
        "the coordinator is away; plan {generation} may still be carried out: see `reweave history`"
    )]
    OutOfSight {
        generation: Generation,
        source: Box<CliError>,
    },
    #[error("plan {generation} is not in the history any more; see `reweave history`")]
    Lost { generation: Generation },
    #[error("cannot start")]
    Start(#[source] io::Error),
    #[error(transparent)]
    Pki(Box<PkiError>),
    #[error("cannot print as JSON")]
    Json(#[source] serde_json::Error),
    #[error("cannot print")]
    Say(#[source] io::Error),
}

impl CliError {
    pub(crate) fn unexpected(answer: &Response) -> Self {
        Self::Unexpected {
            answer: format!("{answer:?}"),
        }
    }

    /// Whether another session may bring what this one did not.
    pub(crate) fn is_of_the_session(&self) -> bool {
        matches!(self, Self::Ask(_) | Self::NoAnswer)
    }

    /// With all that led to it.
    pub(crate) fn told(&self) -> String {
        reason(self)
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::NoIdentity
            | Self::Identity { .. }
            | Self::NoSuchAddress { .. }
            | Self::Pki(_) => 2,
            _ => 1,
        }
    }
}

impl From<PkiError> for CliError {
    fn from(error: PkiError) -> Self {
        Self::Pki(Box::new(error))
    }
}
