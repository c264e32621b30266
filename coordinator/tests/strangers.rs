//! The whole program on loopback, among peers that belong to its cluster and others that do not.

#[cfg(test)]
#[path = "strangers/api.rs"]
mod api;
#[cfg(test)]
#[path = "strangers/audit.rs"]
mod audit;
#[cfg(test)]
#[path = "strangers/checked.rs"]
mod checked;
#[cfg(test)]
#[path = "strangers/crowd.rs"]
mod crowd;
#[cfg(test)]
#[path = "strangers/described.rs"]
mod described;
#[cfg(test)]
#[path = "strangers/drivers.rs"]
mod drivers;
#[cfg(test)]
#[path = "strangers/floods.rs"]
mod floods;
#[cfg(test)]
#[path = "strangers/guests.rs"]
mod guests;
#[cfg(test)]
#[path = "strangers/hostile_input.rs"]
mod hostile_input;
#[cfg(test)]
#[path = "strangers/house.rs"]
mod house;
#[cfg(test)]
#[path = "strangers/http.rs"]
mod http;
#[cfg(test)]
#[path = "strangers/membership.rs"]
mod membership;
#[cfg(test)]
#[path = "strangers/people.rs"]
mod people;
#[cfg(test)]
#[path = "strangers/policy.rs"]
mod policy;
#[cfg(test)]
#[path = "strangers/refused.rs"]
mod refused;
#[cfg(test)]
#[path = "strangers/sandbox.rs"]
mod sandbox;
#[cfg(test)]
#[path = "../../tests/lab/tests/support/timed.rs"]
mod timed;
#[cfg(test)]
#[path = "strangers/unsigned.rs"]
mod unsigned;
