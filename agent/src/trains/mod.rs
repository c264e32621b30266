//! Trains of packets over the network: what sends them, and measures bandwidth by them.

mod error;
mod sender;

pub use error::TrainError;
pub use sender::TrainSender;
