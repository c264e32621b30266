//! Routes as the tables that hosts install.

use reweave_common::fabric::Fabric;
use reweave_common::forwarding::{ForwardingTable, NextHop};
use reweave_common::ids::{LinkId, NodeId};

use super::order::Order;
use super::splits::Routes;

/// What one host of a fabric needs to know. The fabric's nodes are the hosts of the routes.
pub fn table(routes: &Routes, order: &Order, fabric: &Fabric, host: u32) -> ForwardingTable {
    let at = node(host);
    let link_to = |next: u32| fabric.links_between(at, node(next)).next();
    let towards = |to: u32| {
        let next = routes.next(host, to).filter_map(|(lane, weight)| {
            Some(NextHop {
                link: link_to(routes.lanes().end(lane))?,
                weight: u32::from(weight),
            })
        });
        (node(to), next.collect::<Vec<_>>())
    };
    let all = (0..routes.lanes().hosts() as u32).map(towards);
    ForwardingTable {
        at,
        towards: all.filter(|(_, next)| !next.is_empty()).collect(),
        raises: raises(order, fabric, at),
    }
}

fn raises(order: &Order, fabric: &Fabric, at: NodeId) -> Vec<[LinkId; 2]> {
    let links = fabric.links_of(at);
    let far = |link: LinkId| fabric.link(link).far(at).node.index() as u32;
    let host = at.index() as u32;
    let pairs = links
        .iter()
        .flat_map(|&from| links.iter().map(move |&to| [from, to]));
    let raised = pairs.filter(|&[from, to]| order.raises(far(from), host, far(to)));
    raised.collect()
}

fn node(host: u32) -> NodeId {
    NodeId::from_index(host as usize)
}
