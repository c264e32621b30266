//! The whole program on loopback, among peers that belong to its cluster and others that do not.

#[path = "strangers/floods.rs"]
mod floods;
#[path = "strangers/house.rs"]
mod house;
#[path = "strangers/http.rs"]
mod http;
#[path = "strangers/membership.rs"]
mod membership;
#[path = "strangers/refused.rs"]
mod refused;
