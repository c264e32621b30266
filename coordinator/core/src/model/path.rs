//! From the routers that answered to the hops of a path.

use std::net::Ipv4Addr;

use reweave_common::ids::{LinkId, NodeId};
use reweave_common::sample::TracedPath;
use reweave_common::snapshot::Hop;

use super::Picture;

impl Picture<'_> {
    /// Every hop, or nothing. A router that answers calls itself by the interface that the packet
    /// came in by, and so names the link.
    pub(super) fn path(&self, from: NodeId, traced: &TracedPath) -> Option<Vec<Hop>> {
        let mut path = Vec::with_capacity(traced.routers.len() + 1);
        let mut at = from;
        for &router in &traced.routers {
            let (link, node) = self.inbound(router?)?;
            path.push(self.hop(at, link, node)?);
            at = node;
        }
        let destination = *traced.flow.destination.ip();
        path.push(self.last_hop(at, destination)?);
        Some(path)
    }

    /// The link that ends at the interface with this address, and the node.
    fn inbound(&self, address: Ipv4Addr) -> Option<(LinkId, NodeId)> {
        Some((self.wiring.link(address)?, self.wiring.node(address)?))
    }

    fn hop(&self, from: NodeId, link: LinkId, to: NodeId) -> Option<Hop> {
        let mut between = self.known.fabric.links_between(from, to);
        between
            .any(|joining| joining == link)
            .then_some(Hop { from, link })
    }

    /// Over the link to the interface of that address; or over the only link there is, since a
    /// host that forwards may be reached by any of its interfaces.
    fn last_hop(&self, from: NodeId, destination: Ipv4Addr) -> Option<Hop> {
        let to = self.wiring.node(destination)?;
        let named = self
            .wiring
            .link(destination)
            .and_then(|link| self.hop(from, link, to));
        named.or_else(|| {
            let mut between = self.known.fabric.links_between(from, to);
            let link = between.next()?;
            between.next().is_none().then_some(Hop { from, link })
        })
    }
}
