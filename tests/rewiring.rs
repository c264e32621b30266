//! Circuits and routes change under traffic, in a world of its own: the real decisions of the
//! coordinator, of agents and of drivers, between simulated kernels, fibres and optical switches.

#[path = "rewiring/beside.rs"]
mod beside;
#[path = "rewiring/deaths.rs"]
mod deaths;
#[path = "rewiring/deserted.rs"]
mod deserted;
#[path = "rewiring/lost_circuits.rs"]
mod lost_circuits;
#[path = "rewiring/maintained.rs"]
mod maintained;
#[path = "rewiring/model/mod.rs"]
mod model;
#[path = "rewiring/random_scene.rs"]
mod random_scene;
#[path = "rewiring/seeds.rs"]
mod seeds;
