//! The core on a network of a few nodes.

mod auto;
mod back;
mod beside;
mod cluster;
mod diagnosis;
mod discovered;
mod drained;
mod evenness;
mod failing;
mod frozen;
#[path = "../../../../proto/src/tests/heap.rs"]
mod heap;
mod hours;
mod iterations;
mod jobs;
mod liars;
mod maintenance;
mod measured;
mod membership;
mod network;
mod operator;
mod pins;
mod probing;
mod rails;
mod ranks;
mod readings;
mod registered;
mod replay;
mod restart;
mod rollout;
mod scene;
mod switch;
mod switches;
mod traced;
mod weighed;
mod worst;
