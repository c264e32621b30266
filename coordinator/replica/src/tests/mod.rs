//! Replicas in one process: messages are passed directly, and disks are lists of batches.

mod agreement;
mod disk;
mod durable;
mod hearing;
mod introduction;
mod membership;
mod room;
mod shape;
#[path = "../../../../proto/src/tests/shapes.rs"]
mod shapes;
