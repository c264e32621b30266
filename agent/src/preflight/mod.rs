//! Saturating tests over TCP, as fast as both hosts and all links between them can.
//!
//! Who is to be pressed is asked over the probes' door, where the roster is known. It opens a port
//! for that one test, takes the streams, and says how much came of each, and in what time.

mod listener;
mod press;

pub use listener::PreflightListener;
pub use press::{PressError, Pressed, press};

/// What a receiver says of a stream at its end: bytes, and the nanoseconds from the first to the last.
const RECEIPT_BYTES: usize = 16;
const KEY_BYTES: usize = 8;
const BUFFER_BYTES: usize = 256 << 10;
