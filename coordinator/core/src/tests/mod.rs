//! The core on a network of a few nodes.

mod cluster;
mod network;
mod rollout;
mod switch;
