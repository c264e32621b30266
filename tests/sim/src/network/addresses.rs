//! Addresses and interface names: each NIC of a host has an address, and so has each end of a link.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use reweave_common::fabric::{Fabric, Role};
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::plan::Pin;
use reweave_common::sample::{Interface, PinRule};
use reweave_common::snapshot::Hop;

#[derive(Debug, Clone)]
pub struct Addresses {
    owners: BTreeMap<Ipv4Addr, NodeId>,
}

impl Addresses {
    pub fn new(fabric: &Fabric) -> Self {
        let ends = fabric.links().flat_map(|(link, between)| {
            let address = move |node| (end_address(fabric, Hop { from: node, link }), node);
            between.ports().map(|port| address(port.node))
        });
        Self {
            owners: ends.collect(),
        }
    }

    pub fn owner(&self, address: Ipv4Addr) -> Option<NodeId> {
        self.owners.get(&address).copied()
    }

    pub fn all(&self) -> &BTreeMap<Ipv4Addr, NodeId> {
        &self.owners
    }
}

/// Returns the address of the host's first NIC.
pub fn host_address(fabric: &Fabric, host: NodeId) -> Ipv4Addr {
    let first = fabric.links_of(host)[0];
    end_address(
        fabric,
        Hop {
            from: host,
            link: first,
        },
    )
}

/// Returns the address in replies to packets that arrive at this end.
pub fn end_address(fabric: &Fabric, end: Hop) -> Ipv4Addr {
    let [node, link] = [end.from.index(), end.link.index()];
    if fabric.node(end.from).role == Role::Switch {
        let side = usize::from(fabric.link(end.link).a.node != end.from);
        address(192, 2 * link + side)
    } else {
        address(port(fabric, end) as u8, node)
    }
}

fn address(second: u8, number: usize) -> Ipv4Addr {
    let [.., high, low] = (number as u32).to_be_bytes();
    Ipv4Addr::new(10, second, high, low)
}

fn port(fabric: &Fabric, end: Hop) -> usize {
    let links = fabric.links_of(end.from);
    let port = links.iter().position(|&link| link == end.link);
    port.expect("the link ends at this node")
}

pub fn interface_name(fabric: &Fabric, end: Hop) -> String {
    let kind = match fabric.node(end.from).role {
        Role::Switch => "swp",
        Role::Host | Role::Relay => "eth",
    };
    format!("{kind}{}", port(fabric, end))
}

/// Returns the interface at one end of a link, as its kernel reports it.
pub fn interface(fabric: &Fabric, end: Hop) -> Interface {
    let far = Hop {
        from: fabric.link(end.link).far(end.from).node,
        ..end
    };
    Interface {
        name: interface_name(fabric, end),
        addresses: vec![end_address(fabric, end)],
        gateways: vec![end_address(fabric, far)],
    }
}

/// Returns the rule by which a switch applies a pin.
pub fn rule_of_pin(fabric: &Fabric, pin: &Pin) -> PinRule {
    let near = Hop {
        from: pin.at,
        link: pin.link,
    };
    let far = Hop {
        from: fabric.link(pin.link).far(pin.at).node,
        ..near
    };
    PinRule {
        flow: pin.flow,
        interface: interface_name(fabric, near),
        next_hop: end_address(fabric, far),
    }
}

/// The link to which a rule of a switch leads, if there is such a one.
pub fn link_of_rule(fabric: &Fabric, switch: NodeId, rule: &PinRule) -> Option<LinkId> {
    let leads_there = |&link: &LinkId| {
        let end = Hop { from: switch, link };
        let said = interface(fabric, end);
        said.name == rule.interface && said.gateways == [rule.next_hop]
    };
    fabric.links_of(switch).iter().copied().find(leads_there)
}
