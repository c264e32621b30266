//! Latency and loss: what to probe when, how to answer probes, and what the answers mean.
//!
//! A probe is a small UDP packet with a source port of its own choice, so that it takes one certain
//! path, and its answer is as long as itself. Six times are noted of it:
//!
//! ```text
//! 1 the prober's program sends it      3 it arrives      5 the answer arrives
//! 2 it leaves the prober's host        4 it leaves       6 the program has read it
//! ```
//!
//! The network took (5 - 2) - (4 - 3), the responder 4 - 3, the prober the rest of 6 - 1. The times
//! 2 to 5 are the kernel's or the network card's. Only differences on one clock are ever taken, so
//! the hosts' clocks need not agree. When the fourth is known, the answer is gone already, so it
//! comes with the answer to the next probe.
//!
//! Probes that were in flight while the prober or the responder was stalled are counted as `stalled`, and neither
//! as answered nor as lost.
//!
//! Now and then a probe is as large as the sender's MTU. Its answer is small like all others; it tells
//! whether such packets arrive, and nothing else is asked of it.

mod clocks;
mod flight;
mod liveness;
mod packet;
mod prober;
mod responder;
mod schedule;

pub use clocks::{Clocks, Stamp};
pub use packet::{PACKET_BYTES, Packet};
pub use prober::{OutgoingProbe, Prober, ReceivedPacket, Unsendable};
pub use responder::Responder;
pub use schedule::{MAX_RATE, PROBE_WIRE_BYTES};

use reweave_common::probing::{Stamps, Strays};

/// The time that a probe spent at the responder, and whose timestamps these are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponderDelay {
    pub nanos: u64,
    pub stamps: Stamps,
}

/// The TTL that probes and answers start with; what is left of it tells how many routers there were.
pub const TTL: u8 = 64;

#[cfg(test)]
mod tests;
