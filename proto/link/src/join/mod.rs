//! Joining: how a peer without a certificate gets one, with a token, at a separate listener.
//!
//! The join listener has its own port, so that no peer without a certificate gets as far as a handshake where
//! sessions are. It shows the authority's certificate, which the joining peer recognises by the digest in its token.
//! The key is made where it is used and stays there. Only the token's secret and a request that proves possession of
//! the key are sent.

mod enter;
mod join_listener;
mod token;
mod verify;

pub use enter::{JoinError, enter};
pub use join_listener::{Applicant, JoinListener};
pub use token::{Token, TokenError};

use reweave_proto::frame;
use serde::{Deserialize, Serialize};

const ALPN: &[u8] = b"reweave-join";
/// A request for a certificate is a few hundred bytes, two certificates are a few thousand.
const MAX_MESSAGE_BYTES: usize = 16 << 10;

/// The message after the hello.
#[derive(Serialize, Deserialize)]
struct Application {
    secret: [u8; token::SECRET_BYTES],
    /// The certificate request: see [`KeyRequest::der`](crate::pki::KeyRequest::der).
    request: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
enum JoinAnswer {
    Welcome {
        authority_pem: String,
        chain_pem: String,
    },
    /// Another coordinator leads. The applicant may try that one.
    AskAnother,
    /// The coordinator refuses, and keeps the reason to itself.
    Refused,
}

/// Decodes the messages, for the fuzzers: see `decoders`.
pub(crate) fn read(frame: &[u8]) {
    let _ = frame::decode::<Application>(frame);
    let _ = frame::decode::<JoinAnswer>(frame);
}
