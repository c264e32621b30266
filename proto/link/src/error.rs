//! Errors of sessions.

use std::io;
use std::net::SocketAddr;

use quinn::{ConnectError, ConnectionError};
use reweave_common::error::error_chain;
use reweave_proto::frame::WireError;
use reweave_proto::hello::{HelloError, Version};
use thiserror::Error;

use crate::session::{CLOSE_NOT_READY, CLOSE_REMOVED};
use crate::transport::IDLE_TIMEOUT;
use crate::verify::PeerRefusal;

/// The text does not repeat the source: print the whole chain with [`reason`].
#[derive(Debug, Error)]
pub enum LinkError {
    #[error("no address to connect to")]
    NoAddress,
    #[error("cannot open a UDP socket at {address}")]
    Socket {
        address: SocketAddr,
        source: io::Error,
    },
    #[error("cannot set up TLS")]
    Tls(#[source] rustls::Error),
    #[error("cannot set up TLS for QUIC")]
    NoQuicCipher(#[source] quinn::crypto::rustls::NoInitialCipherSuite),
    #[error("cannot begin to connect to {address}")]
    Connect {
        address: SocketAddr,
        source: ConnectError,
    },
    #[error("{address} did not complete the handshake in time: is it running there?")]
    HandshakeTimedOut { address: SocketAddr },
    /// This side's verdict.
    #[error("refused {address}")]
    Refused {
        address: SocketAddr,
        source: PeerRefusal,
    },
    /// The peer refused this certificate. It logs the reason; the text names one if it is known here too.
    #[error(
        "{address} refuses this certificate; its log has the reason{}", hint(own_problem.as_ref())
    )]
    RefusedByPeer {
        address: SocketAddr,
        own_problem: Option<PeerRefusal>,
    },
    #[error("the handshake with {address} failed")]
    Handshake {
        address: SocketAddr,
        source: ConnectionError,
    },
    #[error("TLS with {address} failed")]
    Web {
        address: SocketAddr,
        source: io::Error,
    },
    #[error("no session with {address}")]
    Hello {
        address: SocketAddr,
        source: HelloError,
    },
    #[error("{address} did not open one channel of commands and one of telemetry")]
    WrongChannels { address: SocketAddr },
    #[error("no hello from {address}")]
    NoHello {
        address: SocketAddr,
        source: Box<LinkError>,
    },
    #[error("{address} requests a certificate for a key without proof of possession")]
    NoKey { address: SocketAddr },
    #[error("no address led to a session: {}", joined(.0))]
    NoneReached(Vec<LinkError>),
    /// The session continues without this message.
    #[error(
        "the other side speaks protocol {speaks} and this needs {needs}: upgrade the other side"
    )]
    NotSpoken { needs: Version, speaks: Version },
    #[error("the message cannot be sent")]
    Unsendable(#[source] WireError),
    /// The session was closed because of it.
    #[error("the other side sent an invalid message")]
    Unreadable(#[source] WireError),
    #[error("the other side closed the session{}", because(.reason))]
    ClosedByPeer { reason: String },
    /// The peer read nothing of what was sent, so a retry, there or elsewhere, repeats nothing.
    #[error("the other side still starts{}", because(.reason))]
    NotReady { reason: String },
    /// For coordinators. The other side has it from the log, and no retry changes it.
    #[error("this side was removed from the cluster{}", because(.reason))]
    Removed { reason: String },
    /// The peer was admitted and then revoked or removed; the session was closed.
    #[error("the other side is revoked")]
    Denied(#[source] PeerRefusal),
    #[error("this side has closed the session")]
    ClosedHere,
    #[error("the other side has ended the channel")]
    ChannelEnded,
    #[error("the other side has been unreachable for {} s", IDLE_TIMEOUT.as_secs())]
    Vanished,
    #[error("the other side has restarted and lost this session")]
    Restarted,
    #[error("the session broke")]
    Broken(#[source] ConnectionError),
}

impl LinkError {
    /// The address of the peer, if the error is about one.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Socket { address, .. }
            | Self::Connect { address, .. }
            | Self::HandshakeTimedOut { address }
            | Self::Refused { address, .. }
            | Self::RefusedByPeer { address, .. }
            | Self::Handshake { address, .. }
            | Self::Web { address, .. }
            | Self::Hello { address, .. }
            | Self::WrongChannels { address }
            | Self::NoHello { address, .. }
            | Self::NoKey { address } => Some(*address),
            _ => None,
        }
    }

    /// Whether every tried peer is on the deny lists.
    pub fn is_denial(&self) -> bool {
        match self {
            Self::Refused { source, .. } | Self::Denied(source) => source.is_denial(),
            Self::NoneReached(failures) => failures.iter().all(Self::is_denial),
            _ => false,
        }
    }

    /// The error without the peer's address.
    pub fn fault(&self) -> String {
        match self {
            Self::Refused { source, .. } => error_chain(source),
            Self::Hello { source, .. } => error_chain(source),
            Self::RefusedByPeer { own_problem, .. } => format!(
                "it refuses this side's certificate{}",
                hint(own_problem.as_ref())
            ),
            Self::HandshakeTimedOut { .. } => "it did not complete the handshake".to_owned(),
            Self::Handshake { source, .. } => {
                format!("the handshake failed: {}", error_chain(source))
            }
            Self::Web { source, .. } => format!("the handshake failed: {}", error_chain(source)),
            Self::WrongChannels { .. } => {
                "it did not open one channel of commands and one of telemetry".to_owned()
            }
            Self::NoHello { source, .. } => format!("no hello from it: {}", error_chain(source)),
            Self::NoKey { .. } => {
                "it requests a certificate for a key without proof of possession".to_owned()
            }
            other => error_chain(other),
        }
    }
}

fn hint(own_problem: Option<&PeerRefusal>) -> String {
    own_problem.map_or_else(String::new, |problem| {
        format!(" (seen from here: {problem})")
    })
}

fn because(reason: &str) -> String {
    match reason {
        "" => String::new(),
        reason => format!(": {reason}"),
    }
}

fn joined(errors: &[LinkError]) -> String {
    let reasons: Vec<_> = errors.iter().map(|error| error_chain(error)).collect();
    reasons.join("; ")
}

/// Makes a peer's text safe for logs and terminals.
pub(crate) fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

/// How an established session ended.
impl From<ConnectionError> for LinkError {
    fn from(error: ConnectionError) -> Self {
        match error {
            ConnectionError::ApplicationClosed(close) => {
                let reason = printable(&String::from_utf8_lossy(&close.reason));
                if close.error_code == CLOSE_NOT_READY {
                    Self::NotReady { reason }
                } else if close.error_code == CLOSE_REMOVED {
                    Self::Removed { reason }
                } else {
                    Self::ClosedByPeer { reason }
                }
            }
            ConnectionError::LocallyClosed => Self::ClosedHere,
            ConnectionError::TimedOut => Self::Vanished,
            ConnectionError::Reset => Self::Restarted,
            other => Self::Broken(other),
        }
    }
}

impl From<quinn::ReadError> for LinkError {
    fn from(error: quinn::ReadError) -> Self {
        match error {
            quinn::ReadError::ConnectionLost(lost) => lost.into(),
            _ => Self::ChannelEnded,
        }
    }
}

impl From<quinn::WriteError> for LinkError {
    fn from(error: quinn::WriteError) -> Self {
        match error {
            quinn::WriteError::ConnectionLost(lost) => lost.into(),
            _ => Self::ChannelEnded,
        }
    }
}
