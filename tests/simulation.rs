//! The stories of the lab and more, in the simulated world: by one clock and one seed, with the same
//! decisions as in the product.

#[path = "simulation/clean.rs"]
mod clean;
#[path = "simulation/deaths.rs"]
mod deaths;
#[path = "simulation/fabrics.rs"]
mod fabrics;
#[path = "simulation/judged.rs"]
mod judged;
#[path = "recorded/life.rs"]
mod life;
#[path = "simulation/mending.rs"]
mod mending;
#[path = "simulation/mistaken.rs"]
mod mistaken;
#[path = "simulation/rails.rs"]
mod rails;
#[path = "simulation/repeats.rs"]
mod repeats;
#[path = "simulation/scenarios.rs"]
mod scenarios;
#[path = "simulation/scene.rs"]
mod scene;
#[path = "simulation/seeds.rs"]
mod seeds;
#[path = "simulation/thwarted.rs"]
mod thwarted;
