//! Bandwidth by trains of packets: many are sent at once, and the slowest link on their way spreads
//! them out. How far, their arrivals tell.
//!
//! A train is asked for and granted first; who it goes to notes when each packet arrives, by the
//! kernel's stamps or the card's, and tells that when asked. No answer is longer than its question.

mod budget;
mod estimate;
mod gate;
mod receiver;
mod timetable;
mod traced_trains;
mod train_arrivals;
mod train_packet;
mod train_sequence;

pub use budget::ByteBudget;
pub use estimate::BandwidthEstimate;
pub use gate::IdleGate;
pub use receiver::TrainReceiver;
pub use timetable::Timetable;
pub use traced_trains::TracedTrains;
pub use train_arrivals::{TrainArrivals, TrainVerdict};
pub use train_packet::{
    HEADER_BYTES, PAGE_BYTES, PAGE_PACKETS, Train, TrainMessage, TrainRefusal, TrainShape,
    is_message,
};
pub use train_sequence::TrainSequence;

/// UDP, IP and Ethernet without its checksum, as kernels count frames.
pub const FRAME_HEADER_BYTES: u32 = 8 + 20 + 14;
/// No train is longer.
pub const MAX_PACKETS: u32 = 2048;
