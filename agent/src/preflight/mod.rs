//! Load tests over TCP, as fast as both hosts and the links between them allow.
//!
//! The test is requested over the probes' port, where the roster is known. The receiver opens a port for that one
//! test, accepts the streams, and reports the bytes and the duration of each.

mod listener;
mod press;

pub use listener::PreflightListener;
pub use press::{PressError, Pressed, press};

/// The result of a stream: its bytes, and the nanoseconds from the first to the last.
const RECEIPT_BYTES: usize = 16;
const KEY_BYTES: usize = 8;
const BUFFER_BYTES: usize = 256 << 10;
