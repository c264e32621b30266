//! Which address stands where.
//!
//! | what                       | address                                    |
//! |----------------------------|--------------------------------------------|
//! | NIC p of the h-th endpoint | 10.p.(h / 256).(h % 256)/32                |
//! | the s-th switch            | 10.128.(s / 256).(s % 256)/32              |
//! | end a, b of the l-th link  | 10.192.0.0 + 2 l, + 1, a /31               |
//! | management                 | 10.255.0.0/16                              |
//!
//! Hosts that forward nothing need no address on the link: their NIC's own is enough. An address that the fabric's file
//! gives to a NIC replaces that of the table. One that it gives to a host with several declared NICs is that of its loopback.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use reweave_common::fabric::{Fabric, Port};
use reweave_common::ids::{LinkId, NodeId};

use crate::error::LabError;
use crate::rails;
use crate::wiring::is_cable;

const MAX_ENDPOINTS: usize = 1 << 16;
const MAX_SWITCHES: usize = 1 << 16;
const MAX_NICS: usize = 128;
/// Addresses of the management network follow after them.
const MAX_LINKS: usize = (1 << 21) - (1 << 15);
const FIRST_SWITCH_ADDRESS: u32 = u32::from_be_bytes([10, 128, 0, 0]);
const FIRST_LINK_ADDRESS: u32 = u32::from_be_bytes([10, 192, 0, 0]);

/// The addresses of one fabric.
#[derive(Debug, Clone)]
pub(crate) struct Addressing {
    /// The place of each node among the endpoints, or among the switches.
    ordinals: Vec<u32>,
}

impl Addressing {
    pub(crate) fn new(fabric: &Fabric) -> Result<Self, LabError> {
        check_size(fabric)?;
        let [mut endpoints, mut switches] = [0.., 0..];
        let ordinals = fabric.nodes().map(|(_, node)| {
            let counter = if node.role.is_endpoint() {
                &mut endpoints
            } else {
                &mut switches
            };
            counter.next().unwrap_or_default()
        });
        let addressing = Self {
            ordinals: ordinals.collect(),
        };
        if fabric.has_declared_nics() {
            addressing.check_declared(fabric)?;
        }
        Ok(addressing)
    }

    /// The address of a node: that of NIC 0, or a switch's loopback.
    pub(crate) fn of_node(&self, fabric: &Fabric, node: NodeId) -> Ipv4Addr {
        if let Some(address) = fabric.address(node) {
            address
        } else if fabric.node(node).role.is_endpoint() {
            let on_rails = rails::nics_of(fabric, node).first();
            let first = on_rails.map(|&nic| rails::port_of(fabric, nic));
            self.of_nic(fabric, first.unwrap_or(Port { node, index: 0 }))
        } else {
            (FIRST_SWITCH_ADDRESS + self.ordinals[node.index()]).into()
        }
    }

    /// The stable address of an endpoint's NIC.
    pub(crate) fn of_nic(&self, fabric: &Fabric, nic: Port) -> Ipv4Addr {
        if let Some(declared) = rails::nic_at(fabric, nic).and_then(|nic| nic.address) {
            return declared;
        }
        let first = u32::from_be_bytes([10, 0, 0, 0]) | (nic.index << 16);
        (first + self.ordinals[nic.node.index()]).into()
    }

    /// Returns all stable addresses of a node; those of a host on rails in the order of its rails.
    pub(crate) fn all_of(&self, fabric: &Fabric, node: NodeId) -> Vec<Ipv4Addr> {
        if !fabric.node(node).role.is_endpoint() {
            return vec![self.of_node(fabric, node)];
        }
        let on_rails = rails::nics_of(fabric, node).iter();
        if on_rails.len() > 0 {
            return on_rails
                .map(|&nic| self.of_nic(fabric, rails::port_of(fabric, nic)))
                .collect();
        }
        // A host that is connected to nothing has an address all the same.
        let nics = cables_of(fabric, node);
        if nics == 0 {
            return vec![self.of_node(fabric, node)];
        }
        (0..nics as u32)
            .map(|index| self.of_nic(fabric, Port { node, index }))
            .collect()
    }

    /// Returns the address in the file of a host on rails, if none of its NICs has it: that of its loopback.
    pub(crate) fn loopback_of(&self, fabric: &Fabric, host: NodeId) -> Option<Ipv4Addr> {
        let own = fabric.address(host)?;
        let is_on_rails = !rails::nics_of(fabric, host).is_empty();
        let is_loopback = is_on_rails && !self.all_of(fabric, host).contains(&own);
        is_loopback.then_some(own)
    }

    /// Refuses an address in the file that the lab gives to another NIC or node.
    fn check_declared(&self, fabric: &Fabric) -> Result<(), LabError> {
        let mut taken = BTreeSet::new();
        for host in fabric.endpoints() {
            let loopback = self.loopback_of(fabric, host);
            for address in self.all_of(fabric, host).into_iter().chain(loopback) {
                if is_reserved(address) || !taken.insert(address) {
                    return Err(LabError::AddressTaken {
                        host: fabric.name(host).to_owned(),
                        address,
                    });
                }
            }
        }
        Ok(())
    }

    /// Returns the gateway address of the neighbour at the other end of `link`.
    pub(crate) fn gateway(&self, fabric: &Fabric, link: LinkId, at: Port) -> Ipv4Addr {
        if !is_cable(fabric, link) {
            self.of_node(fabric, at.node)
        } else if fabric.node(at.node).role.forwards() {
            on_link(link, end_of(fabric, link, at))
        } else {
            self.of_nic(fabric, at)
        }
    }
}

/// Returns the number of the end (0 or 1) of `link` that is `at`.
pub(crate) fn end_of(fabric: &Fabric, link: LinkId, at: Port) -> u8 {
    u8::from(fabric.link(link).b == at)
}

/// The address of an end on the link itself.
pub(crate) fn on_link(link: LinkId, end: u8) -> Ipv4Addr {
    (FIRST_LINK_ADDRESS + 2 * link.index() as u32 + u32::from(end)).into()
}

/// A hardware address, the same in every run.
pub(crate) fn mac(link: LinkId, end: u8) -> String {
    let [a, b, c, d] = (link.index() as u32).to_be_bytes();
    // 02 marks an address that no vendor gave.
    format!("02:{a:02x}:{b:02x}:{c:02x}:{d:02x}:{end:02x}")
}

/// Whether it is of switches, links or the management network: in 10.128.0.0/9.
fn is_reserved(address: Ipv4Addr) -> bool {
    let [network, half, ..] = address.octets();
    network == 10 && half >= 128
}

fn cables_of(fabric: &Fabric, node: NodeId) -> usize {
    let links = fabric.links_of(node).iter();
    links.filter(|&&link| is_cable(fabric, link)).count()
}

fn check_size(fabric: &Fabric) -> Result<(), LabError> {
    let endpoints = fabric.endpoints().count();
    let nics = fabric.endpoints().map(|host| cables_of(fabric, host));
    let cables = fabric.links().filter(|(link, _)| is_cable(fabric, *link));
    for (what, count, most) in [
        ("hosts", endpoints, MAX_ENDPOINTS),
        ("switches", fabric.nodes().len() - endpoints, MAX_SWITCHES),
        ("links of one host", nics.max().unwrap_or(0), MAX_NICS),
        ("links", cables.count(), MAX_LINKS),
    ] {
        if count > most {
            return Err(LabError::FabricTooLarge { what, count, most });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAF_SPINE: &str = "kind = \"leaf-spine\"\nleaves = 2\nspines = 1\nhosts_per_leaf = 150\n\
                              host_gbps = 1\nuplink_gbps = 1";

    fn fabric(text: &str) -> Fabric {
        Fabric::parse("fabric.toml", text).unwrap()
    }

    #[test]
    fn hosts_switches_links_have_own_ranges() {
        let fabric = fabric(LEAF_SPINE);
        let addressing = Addressing::new(&fabric).unwrap();
        let of = |name| {
            let node = fabric.find(name).unwrap();
            addressing.of_node(&fabric, node).to_string()
        };
        assert_eq!(of("h0"), "10.0.0.0");
        assert_eq!(of("h299"), "10.0.1.43");
        assert_eq!(of("leaf1"), "10.128.0.1");
        assert_eq!(of("spine0"), "10.128.0.2");
        let link = LinkId::from_index(200);
        assert_eq!(on_link(link, 1).to_string(), "10.192.1.145");
        assert_eq!(mac(link, 1), "02:00:00:00:c8:01");
    }

    #[test]
    fn every_relay_nic_has_own_address() {
        let rings = fabric("kind = \"direct\"\nhosts = 5\nlink_gbps = 1\nstrides = [1, 2]");
        let addressing = Addressing::new(&rings).unwrap();
        let all = addressing.all_of(&rings, NodeId::from_index(3));
        let expected: [Ipv4Addr; 4] =
            [[10, 0, 0, 3], [10, 1, 0, 3], [10, 2, 0, 3], [10, 3, 0, 3]].map(Into::into);
        assert_eq!(all, expected);
    }

    /// `rails` are the other keys of the two NICs of host a.
    fn declared(rails: [&str; 2]) -> Result<Vec<String>, String> {
        let [first, second] = rails;
        let fabric = fabric(&format!(
            "kind = \"graph\"\nnode = [{{ name = \"a\", role = \"host\" }}, {{ name = \"s\", role = \"switch\" }}]\n\
             nic = [{{ host = \"a\", to = \"s\", gbps = 1, {first} }}, {{ host = \"a\", to = \"s\", gbps = 1, {second} }}]"
        ));
        let addressing = Addressing::new(&fabric).map_err(|error| error.to_string())?;
        let a = fabric.find("a").unwrap();
        let all = addressing.all_of(&fabric, a);
        assert_eq!(addressing.of_node(&fabric, a), all[0]);
        Ok(all.iter().map(Ipv4Addr::to_string).collect())
    }

    #[test]
    fn nic_has_its_declared_address() {
        let addresses = declared(["rail = 1", "rail = 0, address = \"192.0.2.7\""]);
        assert_eq!(addresses.unwrap(), ["192.0.2.7", "10.0.0.0"]);
        let refusal = |keys: &str| declared(["rail = 0", keys]).unwrap_err();
        for address in ["10.0.0.0", "10.192.0.1"] {
            assert_eq!(
                refusal(&format!("rail = 1, address = \"{address}\"")),
                format!(
                    "{address} of \"a\" is an address that the lab gives to another: choose one outside of 10.0.0.0/8"
                )
            );
        }
    }

    #[test]
    fn fabric_beyond_address_range_is_refused() {
        let links = "kind = \"graph\"\n[[node]]\nname = \"a\"\nrole = \"relay\"\n[[node]]\n\
                     name = \"b\"\nrole = \"relay\"\n[[link]]\na = \"a\"\nb = \"b\"\ngbps = 1\n\
                     count = 129";
        let error = Addressing::new(&fabric(links)).unwrap_err().to_string();
        assert_eq!(
            error,
            "129 links of one host are more than the 128 a lab has addresses for"
        );
    }
}
