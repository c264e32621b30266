//! Leaves, spines and hosts as their agents report them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::sync::Mutex;

use reweave_common::fabric::{Fabric, Role};
use reweave_common::forwarding_state::ForwardingState;
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::lock::lock;
use reweave_common::sample::{Counters, Interface, Reading};
use reweave_common::units::{Bytes, Rate};

use super::followers::World;

/// Returns a fabric with one host per leaf, whose address is in the file.
pub(crate) fn leaf_spine(leaves: usize, spines: usize) -> String {
    let mut text = "kind = \"graph\"\n".to_owned();
    for leaf in 0..leaves {
        let address = host_address(NodeId::from_index(leaf));
        let _ = writeln!(
            text,
            "[[node]]\nname = \"h{leaf}\"\nrole = \"host\"\naddress = \"{address}\""
        );
    }
    let switches = (0..leaves).map(|leaf| format!("leaf{leaf}"));
    let switches = switches.chain((0..spines).map(|spine| format!("spine{spine}")));
    for name in switches {
        let _ = writeln!(text, "[[node]]\nname = \"{name}\"\nrole = \"switch\"");
    }
    for leaf in 0..leaves {
        let above = (0..spines).map(|spine| format!("spine{spine}"));
        for other in above.chain([format!("h{leaf}")]) {
            let _ = writeln!(
                text,
                "[[link]]\na = \"leaf{leaf}\"\nb = \"{other}\"\ngbps = 100"
            );
        }
    }
    text
}

pub(crate) struct Scenery {
    pub(crate) fabric: Fabric,
    down: Mutex<BTreeSet<LinkId>>,
}

impl Scenery {
    pub(crate) fn of(text: &str) -> Self {
        Self {
            fabric: Fabric::parse("fabric.toml", text).expect("it is a fabric"),
            down: Mutex::default(),
        }
    }

    /// Returns the selected nodes.
    pub(crate) fn nodes(&self, is_wanted: impl Fn(NodeId, Role) -> bool) -> Vec<(NodeId, String)> {
        let nodes = self.fabric.nodes();
        let wanted = nodes.filter(|(id, node)| is_wanted(*id, node.role));
        wanted.map(|(id, node)| (id, node.name.clone())).collect()
    }

    pub(crate) fn link(&self, name: &str) -> LinkId {
        self.fabric.find_link(name).expect("it is there")
    }

    pub(crate) fn set_down(&self, link: LinkId, is_down: bool) {
        let mut down = lock(&self.down);
        if is_down {
            down.insert(link)
        } else {
            down.remove(&link)
        };
    }

    /// Returns the address of this end, as the far end knows it.
    pub(crate) fn address(&self, node: NodeId, link: LinkId) -> Ipv4Addr {
        if self.fabric.node(node).role == Role::Host {
            return host_address(node);
        }
        let is_first = self.fabric.link(link).ports()[0].node == node;
        let base = Ipv4Addr::new(10, 64, 0, 0).to_bits();
        Ipv4Addr::from_bits(base + 2 * link.index() as u32 + u32::from(!is_first))
    }

    fn interface(&self, node: NodeId, place: usize, link: LinkId) -> Reading {
        let far = self.fabric.link(link).far(node).node;
        let is_host = self.fabric.node(node).role == Role::Host;
        let gateway = is_host.then(|| self.address(far, link));
        Reading::Interface(Interface {
            name: interface_name(place),
            addresses: vec![self.address(node, link)],
            gateways: gateway.into_iter().collect(),
        })
    }
}

impl World for Scenery {
    fn readings(&self, node: NodeId, _: &ForwardingState) -> Vec<Reading> {
        let down = lock(&self.down);
        let links = self.fabric.links_of(node).iter().enumerate();
        let both = links.flat_map(|(place, &link)| {
            let counters = idle(interface_name(place), !down.contains(&link));
            [self.interface(node, place, link), counters]
        });
        both.collect()
    }
}

pub(crate) fn host_address(node: NodeId) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(10, 1, 0, 1).to_bits() + node.index() as u32)
}

pub(crate) fn interface_name(place: usize) -> String {
    format!("swp{place}")
}

/// Returns the reading of an interface without traffic.
pub(crate) fn idle(interface: String, up: bool) -> Reading {
    Reading::Counters(Counters {
        interface,
        up,
        sent: Bytes::ZERO,
        received: Bytes::ZERO,
        dropped_packets: 0,
        send_rate: Some(Rate::from_bits_per_s(0)),
        receive_rate: Some(Rate::from_bits_per_s(0)),
    })
}
