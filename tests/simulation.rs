//! The stories of the lab and more, in the simulated world: by one clock and one seed, with the same
//! decisions as in the product.

#[path = "simulation/mending.rs"]
mod mending;
#[path = "simulation/mistaken.rs"]
mod mistaken;
#[path = "simulation/scene.rs"]
mod scene;
