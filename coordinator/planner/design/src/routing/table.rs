//! Routes as the tables that hosts and switches install.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::fabric::Fabric;
use reweave_common::forwarding::{ForwardingTable, NextHop};
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::migration_plan::Tables;
use reweave_common::routes;

use super::lanes::Lanes;
use super::order::Order;
use super::splits::Routes;
use crate::topology::Wiring;

/// A fabric for which tables are made, with its dark links. Routes count its nodes as hosts.
#[derive(Debug, Clone, Copy)]
pub struct Ground<'g> {
    pub fabric: &'g Fabric,
    pub closed: &'g BTreeSet<LinkId>,
}

impl Ground<'_> {
    /// Returns the tables of these nodes. With an order, they include changes of the priority class.
    pub fn tables(
        &self,
        routes: &Routes,
        order: Option<&Order>,
        nodes: impl IntoIterator<Item = NodeId>,
    ) -> Tables {
        let table = |at| (at, self.table(routes, order, at));
        nodes.into_iter().map(table).collect()
    }

    fn table(&self, routes: &Routes, order: Option<&Order>, at: NodeId) -> ForwardingTable {
        let towards = |to: NodeId| (to, self.next_hops(routes, at, to));
        let towards = self.fabric.endpoints().map(towards);
        ForwardingTable {
            at,
            towards: towards.filter(|(_, next)| !next.is_empty()).collect(),
            raises: order.map_or(Vec::new(), |order| self.raises(order, at)),
        }
    }

    /// Returns the next hops. Parallel links share the weight.
    fn next_hops(&self, routes: &Routes, at: NodeId, to: NodeId) -> Vec<NextHop> {
        let lanes = routes.next(number(at), number(to)).map(|(lane, weight)| {
            let next = NodeId::from_index(routes.lanes().end(lane) as usize);
            let links: Vec<_> = self.open_between(at, next).collect();
            (links, u32::from(weight))
        });
        let lanes: Vec<_> = lanes.collect();
        let all = lanes.iter().map(|(links, _)| links.len().max(1) as u32);
        let all = all.fold(1, |all, count| all / gcd(all, count) * count);
        let part = |(links, weight): (Vec<LinkId>, u32)| {
            let weight = weight * all / links.len().max(1) as u32;
            links.into_iter().map(move |link| NextHop { link, weight })
        };
        smallest(lanes.into_iter().flat_map(part).collect())
    }

    fn open_between(&self, a: NodeId, b: NodeId) -> impl Iterator<Item = LinkId> {
        let links = self.fabric.links_between(a, b);
        links.filter(|link| !self.closed.contains(link))
    }

    fn open_of(&self, at: NodeId) -> impl Iterator<Item = LinkId> + Clone {
        let links = self.fabric.links_of(at).iter().copied();
        links.filter(|link| !self.closed.contains(link))
    }

    fn far(&self, at: NodeId, link: LinkId) -> u32 {
        number(self.fabric.link(link).far(at).node)
    }

    fn raises(&self, order: &Order, at: NodeId) -> Vec<[LinkId; 2]> {
        let links = self.open_of(at);
        let pairs = links
            .clone()
            .flat_map(|from| links.clone().map(move |to| [from, to]));
        let raised = pairs
            .filter(|&[from, to]| order.raises(self.far(at, from), number(at), self.far(at, to)));
        raised.collect()
    }

    /// Returns shortest routes through forwarding nodes. Each shortest path has an equal share, for a caller that does
    /// not know the traffic.
    pub fn shortest(&self) -> Routes {
        let shortest = routes::Routes::around(self.fabric, self.closed);
        let mut routes = Routes::new(Lanes::of(&self.wiring()));
        for to in self.fabric.endpoints() {
            self.split_towards(&shortest, to, &mut routes);
        }
        routes
    }

    fn wiring(&self) -> Wiring {
        let links = self
            .fabric
            .links()
            .filter(|(id, _)| !self.closed.contains(id));
        let pairs = links.map(|(_, link)| link.ports().map(|port| number(port.node)));
        Wiring::of(self.fabric.nodes().len(), pairs)
    }

    /// Splits node by node, nearest first, so that the number of paths behind each next hop is known.
    fn split_towards(&self, shortest: &routes::Routes, to: NodeId, routes: &mut Routes) {
        let nodes = self.fabric.nodes().map(|(at, _)| at);
        let far = nodes.filter_map(|at| Some((shortest.hops(at, to)?, at)));
        let mut nearest: Vec<_> = far.filter(|(hops, _)| *hops > 0).collect();
        nearest.sort_unstable();
        let mut ways = BTreeMap::from([(number(to), 1.0)]);
        for (_, at) in nearest {
            let mut behind = BTreeMap::<u32, f64>::new();
            for &link in shortest.next_hops(at, to) {
                let next = self.far(at, link);
                *behind.entry(next).or_default() += ways.get(&next).copied().unwrap_or(0.0);
            }
            ways.insert(number(at), behind.values().sum());
            let lanes = routes.lanes();
            let ends = lanes.from(number(at)).map(|lane| lanes.end(lane));
            let amounts: Vec<_> = ends
                .map(|end| behind.get(&end).copied().unwrap_or(0.0))
                .collect();
            routes.split(number(at), number(to), &amounts);
        }
    }
}

/// The same parts by weights that are as small as can be, and that a kernel can hold.
fn smallest(mut hops: Vec<NextHop>) -> Vec<NextHop> {
    let common = hops.iter().fold(0, |all, hop| gcd(all, hop.weight)).max(1);
    hops.iter_mut().for_each(|hop| hop.weight /= common);
    let most = hops.iter().map(|hop| hop.weight).max().unwrap_or(0);
    if most > MAX_WEIGHT {
        hops.iter_mut()
            .for_each(|hop| hop.weight = (hop.weight * MAX_WEIGHT / most).max(1));
    }
    hops
}

/// Linux holds a weight in a byte.
const MAX_WEIGHT: u32 = 255;

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn number(node: NodeId) -> u32 {
    node.index() as u32
}
