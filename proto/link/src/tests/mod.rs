//! Sessions over real QUIC on loopback, with tokio's clock, which is paused except where time must pass.

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
