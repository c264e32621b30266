//! RDMA, through a helper program that is asked for all that takes the verbs library; and the queue pairs,
//! of which the kernel tells by the tool `rdma`.

mod error;
mod helper;
mod pairs;
mod thread;

pub use error::{MEASUREMENT_NAME, RdmaError};
pub use helper::Helper;
pub use pairs::{QueuePair, queue_pairs};
pub use thread::RdmaThread;

pub(crate) use pairs::read_pairs;
