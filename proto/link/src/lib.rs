//! Sessions between the parts of Reweave.
//!
//! A session is a QUIC connection on which both sides have shown a certificate of their cluster and
//! agreed on a version. It carries messages on two channels that do not wait for each other. What
//! the messages mean is none of this crate's business. What every part needs besides is here too: an
//! identity, a folder to [`durable_files`] things in, a [`chain`] of lines, [`log`] options, and a word with the [`service`] manager; and TLS for the [`web`].
//!
//! Deliberately absent: resumption and 0-RTT (each session proves its certificate again), migration (a peer keeps its
//! address), datagrams, and any stream besides the two.

pub mod access_token;
mod backoff;
pub mod chain;
mod connect;
#[doc(hidden)]
pub mod decoders;
mod deny_list_file;
mod dialer;
mod digest;
pub mod durable_files;
mod error;
mod handshake;
mod handshake_limit;
mod identity;
pub mod join;
mod listener;
pub mod log;
mod opening;
pub mod pki;
mod receive_limit;
mod return_key;
pub mod service;
mod session;
mod shared_deny_list;
mod signatures;
mod tls;
mod token_bucket;
mod transport;
pub mod uplink;
mod verify;
pub mod web;

#[cfg(test)]
mod tests;

pub use backoff::Backoff;
pub use connect::{connect, connect_as};
pub use deny_list_file::{DenyListError, DenyListFile};
pub use dialer::Dialer;
pub use error::LinkError;
pub use identity::Identity;
pub use listener::Listener;
pub use receive_limit::ReceiveLimitGuard;
pub use reweave_proto::name::Role;
pub use session::{Channel, EncodedMessage, Peer, Session, SessionCloser};
pub use token_bucket::TokenBucket;
pub use transport::{HANDSHAKE_TIMEOUT, IDLE_TIMEOUT};
pub use verify::{Credentials, PeerRefusal};
