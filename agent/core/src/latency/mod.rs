//! Latency and loss: which probes to send when, how to answer them, and how to evaluate the answers.
//!
//! A probe is a small UDP packet with a chosen source port, which determines its path. Its answer has the same length.
//! Six times are recorded:
//!
//! ```text
//! 1 the prober's program sends it      3 it arrives      5 the answer arrives
//! 2 it leaves the prober's host        4 it leaves       6 the program has read it
//! ```
//!
//! The network took (5 - 2) - (4 - 3), the responder 4 - 3, and the prober the rest of 6 - 1. Times 2 to 5 come from
//! the kernel or the NIC. Only differences on one clock are used, so the hosts' clocks need not agree. Time 4 is known
//! only after the answer has left, so it is sent with the next answer.
//!
//! Probes that were in flight while the prober or the responder was stalled are counted as `stalled`, and neither
//! as answered nor as lost.
//!
//! Some probes are as large as the sender's MTU. Their answers are small; they only show whether such packets arrive.

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

/// The time that a probe spent at the responder, and the source of its timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponderDelay {
    pub nanos: u64,
    pub stamps: Stamps,
}

/// The initial TTL of probes and answers; the remaining TTL gives the number of routers.
pub const TTL: u8 = 64;

#[cfg(test)]
mod tests;
