//! Sessions between the parts of Reweave.
//!
//! A session is a QUIC connection on which both sides have shown a certificate of their cluster and
//! agreed on a version. It carries messages on two channels that do not wait for each other. What
//! the messages mean is none of this crate's business. What every part needs besides is here too: an
//! identity, a folder to [`keep`] things in, a [`chain`] of lines, and a word with the [`service`] manager; and TLS for the [`web`].
//!
//! Deliberately absent: resumption and 0-RTT (each session proves its certificate anew), migration
//! (a peer stays where it is), datagrams, and any stream besides the two.

mod admit;
mod backoff;
pub mod chain;
mod connect;
#[doc(hidden)]
pub mod decoders;
mod denied;
mod dialer;
mod digest;
mod error;
mod handshake;
mod identity;
pub mod join;
pub mod keep;
pub mod line;
mod listener;
mod opening;
mod pace;
pub mod pki;
mod return_key;
pub mod service;
mod session;
mod sieve;
mod signatures;
mod tls;
mod transport;
mod verify;
pub mod visit;
pub mod web;

#[cfg(test)]
mod tests;

pub use backoff::Backoff;
pub use connect::{connect, connect_as};
pub use dialer::Dialer;
pub use error::LinkError;
pub use identity::Identity;
pub use listener::Listener;
pub use pace::Pace;
pub use reweave_proto::name::Role;
pub use session::{Channel, Parting, Peer, Ready, Session};
pub use sieve::Share;
pub use transport::{HANDSHAKE_TIMEOUT, IDLE_TIMEOUT};
pub use verify::{Credentials, Refusal};
