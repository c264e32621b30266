//! Probes of latency and loss on real sockets: one for each source port of probes, and one on which probes are
//! answered. `agent/core` decides what to send and evaluates the answers.

mod answers;
mod control_messages;
mod engine;
mod packet_batch;
mod socket;
mod tap;
mod thread;

/// See `decoders`.
pub(crate) fn read_beside(bytes: &[u8]) {
    let _ = control_messages::ControlMessages::read(bytes);
}

/// See `decoders`.
pub(crate) fn read_left(frame: &[u8]) {
    let _ = socket::left(frame, Default::default());
}

pub use engine::{Engine, ProbingError};
pub use socket::may_stamp;
pub use thread::ProbeThread;
