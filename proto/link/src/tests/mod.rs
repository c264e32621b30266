//! Sessions over real QUIC on loopback. Where time must pass, it is tokio's, and stands still
//! otherwise.

mod cluster;
mod crowd;
mod denied;
mod durable;
mod flood;
mod hello;
mod join;
mod loose;
mod loss;
mod pki;
mod refusals;
mod revoked;
mod round_trip;
mod shares;
mod unreadable;
