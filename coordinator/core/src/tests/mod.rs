//! The core on a network of a few nodes.

mod auto;
mod back;
mod beside;
mod cables;
mod cluster;
mod diagnosis;
mod direct;
mod discovered;
mod drained;
mod evenness;
mod failing;
mod fibres;
mod frozen;
#[path = "../../../../proto/src/tests/heap.rs"]
mod heap;
mod hostile;
mod hours;
mod iterations;
mod jobs;
mod judged;
mod lanes;
mod liars;
mod maintenance;
mod measured;
mod membership;
#[path = "../../../../proto/src/tests/minors.rs"]
mod minors;
mod network;
mod operator;
mod pins;
mod probing;
mod rails;
mod ranks;
mod readings;
mod registered;
mod reordered;
mod replay;
mod restart;
mod rollout;
mod scene;
mod shape;
#[path = "../../../../proto/src/tests/shapes.rs"]
mod shapes;
mod steered;
mod switch;
mod switches;
mod traced;
mod versions;
mod weighed;
mod worst;
