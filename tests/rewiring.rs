//! Circuits and routes change under traffic, in a world of its own: the real decisions of the
//! coordinator, of agents and of drivers, between simulated kernels, fibres and optical switches.

#[path = "rewiring/actor.rs"]
mod actor;
#[path = "rewiring/beside.rs"]
mod beside;
#[path = "rewiring/cluster.rs"]
mod cluster;
#[path = "rewiring/deaths.rs"]
mod deaths;
#[path = "rewiring/deserted.rs"]
mod deserted;
#[path = "rewiring/device.rs"]
mod device;
#[path = "rewiring/drawn.rs"]
mod drawn;
#[path = "rewiring/driver.rs"]
mod driver;
#[path = "rewiring/faults.rs"]
mod faults;
#[path = "rewiring/laws.rs"]
mod laws;
#[path = "rewiring/light.rs"]
mod light;
#[path = "rewiring/maintained.rs"]
mod maintained;
#[path = "rewiring/model/mod.rs"]
mod model;
#[path = "rewiring/node.rs"]
mod node;
#[path = "rewiring/seeds.rs"]
mod seeds;
#[path = "rewiring/troubled.rs"]
mod troubled;
#[path = "rewiring/wishes.rs"]
mod wishes;
#[path = "rewiring/world.rs"]
mod world;
