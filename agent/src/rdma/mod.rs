//! RDMA, through a helper program for everything that needs the verbs library; and the queue pairs, which the tool
//! `rdma` lists from the kernel.

mod error;
mod helper;
mod pairs;
mod thread;

pub use error::{MEASUREMENT_NAME, RdmaError};
pub use helper::Helper;
pub use pairs::{QueuePair, queue_pairs};
pub use thread::RdmaThread;

pub(crate) use pairs::read_pairs;
