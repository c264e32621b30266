//! The setup of interfaces: their addresses, and the gateways that routes reach over them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::route::{RouteAttribute, RouteMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use reweave_common::sample::Interface;

use super::messages::{gateway, is_ours, out_interface};
use super::{NetlinkError, RouteSocket};

type ByIndex = BTreeMap<u32, BTreeSet<Ipv4Addr>>;

impl RouteSocket {
    /// The interfaces that have an address or lead to a gateway.
    pub fn interfaces(&mut self) -> Result<Vec<Interface>, NetlinkError> {
        let addresses = self.addresses()?;
        let gateways = self.gateways()?;
        let of = |all: &ByIndex, index| {
            let found: Option<&BTreeSet<_>> = all.get(&index);
            found.into_iter().flatten().copied().collect()
        };
        let facts = self.links()?.into_iter().map(|link| Interface {
            name: link.count.interface,
            addresses: of(&addresses, link.index),
            gateways: of(&gateways, link.index),
        });
        let says_something = |it: &Interface| !it.addresses.is_empty() || !it.gateways.is_empty();
        Ok(facts.filter(says_something).collect())
    }

    /// By own address: the largest packet that its interface takes.
    pub fn mtus(&mut self) -> Result<BTreeMap<Ipv4Addr, u32>, NetlinkError> {
        let addresses = self.addresses()?;
        let of_link = |link: super::Link| {
            let own: Option<&BTreeSet<_>> = addresses.get(&link.index);
            let own = own.into_iter().flatten().copied();
            own.filter_map(move |address| Some((address, link.mtu_bytes?)))
        };
        let links = self.links()?.into_iter();
        Ok(links.flat_map(of_link).collect())
    }

    fn addresses(&mut self) -> Result<ByIndex, NetlinkError> {
        let mut request = AddressMessage::default();
        request.header.family = AddressFamily::Inet;
        let request = RouteNetlinkMessage::GetAddress(request);
        let listed = self.socket.dump("list its addresses", &request)?;
        Ok(by_index(listed.iter().filter_map(address)))
    }

    /// The gateways of all tables but the private ones of pins.
    fn gateways(&mut self) -> Result<ByIndex, NetlinkError> {
        let mut request = RouteMessage::default();
        request.header.address_family = AddressFamily::Inet;
        let request = RouteNetlinkMessage::GetRoute(request);
        let listed = self.socket.dump("list its routes", &request)?;
        let routes = listed.iter().filter_map(|message| match message {
            RouteNetlinkMessage::NewRoute(route) if !is_ours(route) => Some(route),
            _ => None,
        });
        Ok(by_index(routes.flat_map(next_hops)))
    }
}

fn by_index(pairs: impl Iterator<Item = (u32, Ipv4Addr)>) -> ByIndex {
    let mut all = ByIndex::new();
    for (index, address) in pairs {
        all.entry(index).or_default().insert(address);
    }
    all
}

fn address(message: &RouteNetlinkMessage) -> Option<(u32, Ipv4Addr)> {
    let RouteNetlinkMessage::NewAddress(message) = message else {
        return None;
    };
    let address = message.attributes.iter().find_map(|it| match it {
        AddressAttribute::Local(IpAddr::V4(address)) => Some(*address),
        _ => None,
    })?;
    (!address.is_loopback()).then_some((message.header.index, address))
}

/// The interfaces and gateways a route leads over: one, or several of equal cost.
fn next_hops(route: &RouteMessage) -> Vec<(u32, Ipv4Addr)> {
    let attributes = &route.attributes;
    let single = out_interface(attributes).zip(gateway(attributes));
    let several = attributes.iter().flat_map(|attribute| match attribute {
        RouteAttribute::MultiPath(hops) => hops.as_slice(),
        _ => &[],
    });
    let several = several.filter_map(|hop| Some((hop.interface_index, gateway(&hop.attributes)?)));
    single.into_iter().chain(several).collect()
}
