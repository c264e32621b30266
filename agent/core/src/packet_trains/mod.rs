//! Bandwidth by packet trains: many packets are sent at once, and the slowest link of the path spreads them. Their
//! arrival times give its rate.
//!
//! A train is requested and granted first. The receiver records the arrival of each packet, by timestamps of the
//! kernel or the NIC, and reports them on request. No answer is longer than its request.

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

/// UDP, IP and Ethernet headers without the checksum, as kernels count frames.
pub const FRAME_HEADER_BYTES: u32 = 8 + 20 + 14;
/// The limit of a train's length.
pub const MAX_PACKETS: u32 = 2048;
