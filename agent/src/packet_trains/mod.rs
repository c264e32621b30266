//! Sends trains of packets over the network, and measures bandwidth by them.

mod error;
mod sender;
mod shared;
mod thread;

pub use error::TrainError;
pub use sender::TrainSender;
pub use shared::SharedGate;
pub use thread::TrainThread;
