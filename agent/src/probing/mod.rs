//! Probes of latency and loss on real sockets: one for each source port that probes are sent from,
//! and one on which probes are answered. What to send and what it means, `agent/core` decides.

mod beside;
mod engine;
mod mail;
mod socket;
mod thread;

pub use engine::{Engine, ProbingError};
pub use socket::may_stamp;
pub use thread::ProbeThread;
