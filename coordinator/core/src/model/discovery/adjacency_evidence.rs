//! Evidence that two interfaces are joined: LLDP, next hops of routes, traced paths, and two addresses of one /31.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use reweave_common::fabric::Fabric;
use reweave_common::hardware::Neighbour;
use reweave_common::observations::NodeObservations;

use crate::model::world::{World, other_of_two};

/// An interface of a node, or a node whose interface is unknown.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Seat {
    pub(super) node: String,
    pub(super) interface: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sign {
    /// This node received the other's LLDP announcement.
    Lldp(String),
    /// This node routes over the other.
    Gateway(String),
    Traced,
    Subnet,
}

/// The evidence for each pair of interfaces, in order.
pub(super) type Signs = BTreeMap<[Seat; 2], BTreeSet<Sign>>;

impl Sign {
    /// The weight of the evidence: an announcement is surer than a route, and addresses alone say little.
    pub(super) fn weight(&self) -> u32 {
        match self {
            Self::Lldp(_) => 16,
            Self::Gateway(_) | Self::Traced => 2,
            Self::Subnet => 1,
        }
    }

    pub(super) fn words(&self) -> String {
        match self {
            Self::Lldp(by) => format!("LLDP at {by}"),
            Self::Gateway(by) => format!("routes of {by}"),
            Self::Traced => "traces".to_owned(),
            Self::Subnet => "addresses of one /31".to_owned(),
        }
    }
}

type Seats = BTreeMap<Ipv4Addr, Seat>;

pub(super) fn signs(world: &World<'_>) -> Signs {
    let fabric = world.fabric();
    let nodes: Vec<_> = world
        .reporting()
        .map(|(node, observed)| (fabric.name(node).to_owned(), observed))
        .collect();
    let seats = seats(&nodes);
    let mut found = SignCollector::default();
    for (node, observed) in &nodes {
        for neighbour in observed.host.neighbours.values() {
            found.neighbour(fabric, node, &neighbour.value);
        }
        found.routes(node, observed, &seats);
        found.traces(node, observed, &seats);
    }
    found.subnets(&seats);
    found.signs
}

fn seats(nodes: &[(String, &NodeObservations)]) -> Seats {
    let mut seats = Seats::new();
    for (node, observed) in nodes {
        for (name, interface) in &observed.interfaces {
            let addresses = interface.value.addresses.iter();
            let own = addresses.filter(|address| !address.is_loopback() && name != "lo");
            seats.extend(own.map(|address| (*address, seat(node, Some(name)))));
        }
    }
    seats
}

pub(super) fn seat(node: &str, interface: Option<&str>) -> Seat {
    Seat {
        node: node.to_owned(),
        interface: interface.map(str::to_owned),
    }
}

/// The node with this name, or with its first label as the name.
fn called(fabric: &Fabric, system: &str) -> String {
    let first = system.split('.').next().unwrap_or(system);
    let known = [system, first].into_iter();
    let known = known.map(|name| fabric.find(name));
    let known = known.flatten().next();
    known.map_or_else(|| system.to_owned(), |node| fabric.name(node).to_owned())
}

#[derive(Default)]
struct SignCollector {
    signs: Signs,
}

impl SignCollector {
    fn note(&mut self, one: Seat, other: Seat, sign: Sign) {
        if one.node != other.node {
            let mut pair = [one, other];
            pair.sort_unstable();
            self.signs.entry(pair).or_default().insert(sign);
        }
    }

    fn neighbour(&mut self, fabric: &Fabric, node: &str, heard: &Neighbour) {
        let far = seat(&called(fabric, &heard.system), Some(&heard.port));
        let near = seat(node, Some(&heard.interface));
        self.note(near, far, Sign::Lldp(node.to_owned()));
    }

    fn routes(&mut self, node: &str, observed: &NodeObservations, seats: &Seats) {
        for (name, interface) in &observed.interfaces {
            let known = interface.value.gateways.iter();
            for far in known.filter_map(|gateway| seats.get(gateway)) {
                let near = seat(node, Some(name));
                self.note(near, far.clone(), Sign::Gateway(node.to_owned()));
            }
        }
    }

    /// Adds traced paths. A router reveals the interface at which the packet arrived, and not the one by which it left
    /// the previous router.
    fn traces(&mut self, node: &str, observed: &NodeObservations, seats: &Seats) {
        for path in observed.paths.values() {
            let mut at = Some(node.to_owned());
            for router in &path.value.routers {
                let far = router.and_then(|address| seats.get(&address));
                if let (Some(at), Some(far)) = (&at, far) {
                    self.note(seat(at, None), far.clone(), Sign::Traced);
                }
                at = far.map(|far| far.node.clone());
            }
        }
    }

    fn subnets(&mut self, seats: &Seats) {
        for (&address, one) in seats {
            if let Some(other) = seats.get(&other_of_two(address)) {
                self.note(one.clone(), other.clone(), Sign::Subnet);
            }
        }
    }
}
