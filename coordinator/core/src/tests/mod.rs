//! The core on a network of a few nodes.

mod auto;
mod back;
mod cluster;
mod diagnosis;
mod discovered;
mod drained;
mod failing;
mod hours;
mod jobs;
mod liars;
mod maintenance;
mod measured;
mod membership;
mod network;
mod operator;
mod pins;
mod probing;
mod readings;
mod replay;
mod restart;
mod rollout;
mod scene;
mod switch;
mod switches;
mod traced;
mod weighed;
