//! Addresses and interface names: each NIC of a host has an address, and so has each end of a link.
//!
//! Where the fabric declares NICs, packets for an address reach its host over the link of the NIC that has it, and packets
//! from an address leave over that link. Else they take any shortest way to the host, whichever of its addresses they are
//! for.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use reweave_common::fabric::{Fabric, Nic, NicUse, Role};
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::plan::Pin;
use reweave_common::sample::{Interface, PinRule};
use reweave_common::snapshot::Hop;

#[derive(Debug, Clone)]
pub struct Addresses {
    owners: BTreeMap<Ipv4Addr, NodeId>,
    /// The link of the NIC with each address. Empty unless the fabric declares NICs.
    nics: BTreeMap<Ipv4Addr, LinkId>,
}

impl Addresses {
    pub fn new(fabric: &Fabric) -> Self {
        let ends = fabric.links().flat_map(|(link, between)| {
            let address = move |node| (end_address(fabric, Hop { from: node, link }), node);
            between.ports().map(|port| address(port.node))
        });
        let nics = fabric.nics();
        let nics = nics.map(|(_, nic)| (nic_address(fabric, nic.host, nic.link), nic.link));
        let nics = nics.filter(|_| fabric.has_declared_nics());
        Self {
            owners: ends.collect(),
            nics: nics.collect(),
        }
    }

    pub fn owner(&self, address: Ipv4Addr) -> Option<NodeId> {
        self.owners.get(&address).copied()
    }

    pub fn all(&self) -> &BTreeMap<Ipv4Addr, NodeId> {
        &self.owners
    }

    /// The link of the NIC with each address.
    pub fn nics(&self) -> &BTreeMap<Ipv4Addr, LinkId> {
        &self.nics
    }

    /// Returns the link over which packets for this address reach their host. None if they may arrive over any.
    pub fn nic_link(&self, address: Ipv4Addr) -> Option<LinkId> {
        self.nics.get(&address).copied()
    }
}

/// Returns the address at a host of the nth flow between two hosts. Where the fabric declares NICs, flows take the
/// training NICs in turn, so that both ends of a flow are on one rail.
pub fn rail_address(fabric: &Fabric, host: NodeId, nth: usize) -> Ipv4Addr {
    let nics = fabric.nics_of(host).iter().map(|&nic| fabric.nic(nic));
    let training = nics.filter(|nic| nic.purpose == NicUse::Training);
    let links: Vec<_> = training.map(|nic| nic.link).collect();
    match nth.checked_rem(links.len()) {
        Some(nic) if fabric.has_declared_nics() => nic_address(fabric, host, links[nic]),
        _ => host_address(fabric, host),
    }
}

/// Returns the address of the host's NIC on this link.
pub fn nic_address(fabric: &Fabric, host: NodeId, link: LinkId) -> Ipv4Addr {
    end_address(fabric, Hop { from: host, link })
}

/// Returns the address of the host's first NIC.
pub fn host_address(fabric: &Fabric, host: NodeId) -> Ipv4Addr {
    nic_address(fabric, host, fabric.links_of(host)[0])
}

/// Returns the address in replies to packets that arrive at this end.
pub fn end_address(fabric: &Fabric, end: Hop) -> Ipv4Addr {
    let [node, link] = [end.from.index(), end.link.index()];
    if fabric.node(end.from).role == Role::Switch {
        let side = usize::from(fabric.link(end.link).a.node != end.from);
        return address(192, 2 * link + side);
    }
    let declared = nic(fabric, end).and_then(|nic| nic.address);
    declared.unwrap_or_else(|| address(port(fabric, end) as u8, node))
}

/// The NIC at this end of a link, if the end is a host's.
fn nic(fabric: &Fabric, end: Hop) -> Option<&Nic> {
    let mut nics = fabric.nics_of(end.from).iter().map(|&nic| fabric.nic(nic));
    nics.find(|nic| nic.link == end.link)
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
    if let Some(declared) = nic(fabric, end).and_then(|nic| nic.interface.clone()) {
        return declared;
    }
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
