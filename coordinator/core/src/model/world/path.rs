//! Converts the routers that answered to the hops of a path.

use std::net::Ipv4Addr;

use reweave_common::fabric::Fabric;
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::sample::TracedPath;
use reweave_common::snapshot::Hop;

use super::Wiring;

/// A node of a path and the link to it, as far as they are known by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Passed {
    pub(crate) node: Option<NodeId>,
    pub(crate) address: Option<Ipv4Addr>,
    pub(crate) link: Option<LinkId>,
}

impl Wiring {
    /// All nodes after the sender, including the receiver, known or not.
    pub(crate) fn passed(&self, fabric: &Fabric, from: NodeId, traced: &TracedPath) -> Vec<Passed> {
        let mut at = Some(from);
        let routers = traced.routers.iter().map(|&address| {
            let node = address.and_then(|it| self.node(it));
            let link = address.and_then(|it| self.link(it));
            let hop = match (at, node, link) {
                (Some(at), Some(node), Some(link)) => hop(fabric, at, link, node),
                _ => None,
            };
            at = node;
            let link = hop.map(|hop| hop.link);
            Passed {
                node,
                address,
                link,
            }
        });
        let mut passed: Vec<_> = routers.collect();
        let destination = *traced.flow.destination.ip();
        let last = at.and_then(|at| self.last_hop(fabric, at, destination));
        passed.push(Passed {
            node: self.node(destination),
            address: Some(destination),
            link: last.map(|hop| hop.link),
        });
        passed
    }

    /// The complete path, or none.
    pub fn path(&self, fabric: &Fabric, from: NodeId, traced: &TracedPath) -> Option<Vec<Hop>> {
        let mut path = self.beginning(fabric, from, traced);
        if path.len() < traced.routers.len() {
            return None;
        }
        let far = |hop: &Hop| fabric.link(hop.link).far(hop.from).node;
        let at = path.last().map_or(from, far);
        path.push(self.last_hop(fabric, at, *traced.flow.destination.ip())?);
        Some(path)
    }

    /// The hops up to the first silent router. A router that answers reveals the interface at which the packet
    /// arrived, and so the link.
    pub fn beginning(&self, fabric: &Fabric, from: NodeId, traced: &TracedPath) -> Vec<Hop> {
        let mut at = from;
        let hops = traced.routers.iter().map_while(|&router| {
            let (link, node) = self.inbound(router?)?;
            let hop = hop(fabric, at, link, node)?;
            at = node;
            Some(hop)
        });
        hops.collect()
    }

    /// The link that ends at the interface with this address, and the node.
    fn inbound(&self, address: Ipv4Addr) -> Option<(LinkId, NodeId)> {
        Some((self.link(address)?, self.node(address)?))
    }

    /// The hop over the link to the interface with that address, or over the only link: a forwarding host may be
    /// reached by any of its interfaces.
    fn last_hop(&self, fabric: &Fabric, from: NodeId, destination: Ipv4Addr) -> Option<Hop> {
        let to = self.node(destination)?;
        let named = self
            .link(destination)
            .and_then(|link| hop(fabric, from, link, to));
        named.or_else(|| {
            let mut between = fabric.links_between(from, to);
            let link = between.next()?;
            between.next().is_none().then_some(Hop { from, link })
        })
    }
}

fn hop(fabric: &Fabric, from: NodeId, link: LinkId, to: NodeId) -> Option<Hop> {
    let mut between = fabric.links_between(from, to);
    between
        .any(|joining| joining == link)
        .then_some(Hop { from, link })
}
