//! How somebody without a certificate gets one: with a token, at a door of its own.
//!
//! The door has its own port, so that nobody without a certificate ever comes as far as a handshake
//! where sessions are. It shows the authority's certificate; whoever joins knows that one by its
//! digest in the token, and nobody else's door. The key is made where it is used and stays there:
//! what goes over the wire is the token's secret and a request that proves who has the key.

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

/// What comes after the hello.
#[derive(Serialize, Deserialize)]
struct Application {
    secret: [u8; token::SECRET_BYTES],
    /// As in [`KeyRequest::der`](crate::pki::KeyRequest::der).
    request: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
enum JoinAnswer {
    Welcome {
        authority_pem: String,
        chain_pem: String,
    },
    /// Another coordinator leads; it may know more.
    AskAnother,
    /// Why, the coordinator keeps to itself.
    Refused,
}

/// See `decoders`.
pub(crate) fn read(frame: &[u8]) {
    let _ = frame::decode::<Application>(frame);
    let _ = frame::decode::<JoinAnswer>(frame);
}
