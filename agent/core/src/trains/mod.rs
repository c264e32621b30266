//! Bandwidth by trains of packets: many are sent at once, and the slowest link on their way spreads
//! them out. How far, their arrivals tell.
//!
//! A train is asked for and granted first; who it goes to notes when each packet arrives, by the
//! kernel's stamps or the card's, and tells that when asked. No answer is longer than its question.

mod budget;
mod course;
mod crossing;
mod estimate;
mod gate;
mod packet;
mod receiver;
mod routed;
mod timetable;

pub use budget::Budget;
pub use course::Course;
pub use crossing::{Crossing, Verdict};
pub use estimate::Estimate;
pub use gate::Gate;
pub use packet::{
    HEADER_BYTES, Message, PAGE_BYTES, PAGE_PACKETS, Refusal, Shape, Train, is_message,
};
pub use receiver::Receiver;
pub use routed::Routed;
pub use timetable::Timetable;

/// UDP, IP and Ethernet without its checksum, as kernels count frames.
pub const FRAME_HEADER_BYTES: u32 = 8 + 20 + 14;
/// No train is longer.
pub const MAX_PACKETS: u32 = 2048;
