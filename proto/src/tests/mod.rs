//! What the messages must withstand.

mod arbitrary;
mod frames;
mod heap;
mod hello;
mod hostile;
mod hosts;
mod json;
mod kept;
mod members;
mod minors;
mod names;
mod parts;
mod ranks;
mod rdma;
mod round_trips;
mod shape;
mod shapes;
