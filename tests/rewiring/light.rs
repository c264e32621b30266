//! Where packets go: by what kernels hold, and from there by light, whatever next hop was meant.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use reweave_common::circuit::PortId;
use reweave_common::fabric::{Fabric, Fibre};
use reweave_common::ids::{LinkId, NodeId, OpticalId};

use crate::driver::Driver;
use crate::node::Node;

pub(crate) type Nodes = BTreeMap<NodeId, Node>;
pub(crate) type Drivers = BTreeMap<OpticalId, Driver>;
/// A port of an optical switch.
pub(crate) type Port = (OpticalId, PortId);

/// What is plugged in where. It never changes.
#[derive(Debug, Clone)]
pub(crate) struct Cabling {
    pub(crate) fabric: Arc<Fabric>,
    jacks: BTreeMap<NodeId, BTreeMap<String, Jack>>,
    owners: BTreeMap<Port, NodeId>,
    /// Ways that were set up by hand before anybody was asked: by destination.
    own: BTreeMap<(NodeId, Ipv4Addr), Vec<String>>,
}

#[derive(Debug, Clone, Copy)]
enum Jack {
    Cable(LinkId),
    Fibre(Port),
}

/// Packets that do not arrive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lost {
    InACircle(NodeId),
    At(NodeId),
}

impl Cabling {
    /// With the shortest ways as they are at first.
    pub(crate) fn new(fabric: Arc<Fabric>) -> Self {
        let mut jacks: BTreeMap<NodeId, BTreeMap<String, Jack>> = BTreeMap::new();
        let fibres = fabric
            .fibres()
            .map(|it| (it.node, it.interface.clone(), Jack::Fibre(port(it))));
        let cables = fabric
            .links()
            .filter(|(link, _)| fabric.crossing(*link).is_none());
        let cables = cables.flat_map(|(link, it)| {
            let ends = it.ports().map(|port| port.node);
            ends.map(|node| (node, cable_name(link), Jack::Cable(link)))
        });
        for (node, interface, jack) in fibres.chain(cables) {
            jacks.entry(node).or_default().insert(interface, jack);
        }
        let owners = fabric.fibres().map(|it| (port(it), it.node)).collect();
        let own = shortest_ways(&fabric);
        Self {
            fabric,
            jacks,
            owners,
            own,
        }
    }

    pub(crate) fn interfaces(&self, node: NodeId) -> impl Iterator<Item = &str> {
        let jacks = self.jacks.get(&node).into_iter();
        jacks.flat_map(|jacks| jacks.keys().map(String::as_str))
    }

    /// How many interfaces of a node see light when all is well.
    pub(crate) fn lit_at_first(&self, at: NodeId) -> usize {
        let circuits = self.fabric.first_circuits();
        let is_lit = |interface: &&str| match self.port(at, interface) {
            None => true,
            Some((optical, port)) => {
                let set = circuits.get(&optical);
                set.is_some_and(|set| set.iter().any(|it| it.ports().contains(&port)))
            }
        };
        self.interfaces(at).filter(is_lit).count()
    }

    /// Who is at the other end of an interface now.
    pub(crate) fn far(&self, drivers: &Drivers, at: NodeId, interface: &str) -> Option<NodeId> {
        match *self.jacks.get(&at)?.get(interface)? {
            Jack::Cable(link) => Some(self.fabric.link(link).far(at).node),
            Jack::Fibre((optical, port)) => {
                let far = drivers[&optical].device.far(port)?;
                self.owners.get(&(optical, far)).copied()
            }
        }
    }

    /// The port of an optical switch that this interface is plugged into.
    pub(crate) fn port(&self, at: NodeId, interface: &str) -> Option<Port> {
        match *self.jacks.get(&at)?.get(interface)? {
            Jack::Cable(_) => None,
            Jack::Fibre(port) => Some(port),
        }
    }

    /// The interfaces by which a node sends on what is for this address.
    pub(crate) fn ways<'a>(&'a self, node: &'a Node, to: Ipv4Addr) -> Vec<&'a str> {
        if let Some(group) = node.kernel.routes.get(&to) {
            let hops = &node.kernel.groups[group];
            return hops.iter().map(|hop| hop.interface.as_str()).collect();
        }
        let own = self.own.get(&(node.id, to)).into_iter().flatten();
        own.map(String::as_str).collect()
    }

    /// All ports that any packet passes, if everybody sends to everybody.
    pub(crate) fn used(&self, nodes: &Nodes, drivers: &Drivers) -> BTreeSet<Port> {
        let mut used = BTreeSet::new();
        for node in nodes.values() {
            for to in self.addresses(node.id) {
                let ports = self.ways(node, to).into_iter();
                for port in ports.filter_map(|interface| self.port(node.id, interface)) {
                    let far = drivers[&port.0].device.far(port.1);
                    used.insert(port);
                    used.extend(far.map(|far| (port.0, far)));
                }
            }
        }
        used
    }

    /// Of all others.
    fn addresses(&self, but: NodeId) -> impl Iterator<Item = Ipv4Addr> {
        let others = self.fabric.endpoints().filter(move |&node| node != but);
        others.filter_map(|node| self.fabric.address(node))
    }

    /// What is lost on its way to anybody, by any of the ways there are.
    pub(crate) fn lost(&self, nodes: &Nodes, drivers: &Drivers) -> Option<(NodeId, Lost)> {
        self.fabric.endpoints().find_map(|to| {
            let mut walk = Walk {
                cabling: self,
                nodes,
                drivers,
                address: self.fabric.address(to)?,
                seen: BTreeMap::from([(to, true)]),
            };
            let lost = nodes.keys().find_map(|&from| walk.arrives(from).err());
            lost.map(|lost| (to, lost))
        })
    }
}

/// From everybody to one node.
struct Walk<'a> {
    cabling: &'a Cabling,
    nodes: &'a Nodes,
    drivers: &'a Drivers,
    address: Ipv4Addr,
    /// Whether packets are known to arrive from there, or are just being followed.
    seen: BTreeMap<NodeId, bool>,
}

impl Walk<'_> {
    fn arrives(&mut self, at: NodeId) -> Result<(), Lost> {
        match self.seen.get(&at) {
            Some(true) => return Ok(()),
            Some(false) => return Err(Lost::InACircle(at)),
            None => self.seen.insert(at, false),
        };
        let cabling = self.cabling;
        let ways = cabling.ways(&self.nodes[&at], self.address);
        if ways.is_empty() {
            return Err(Lost::At(at));
        }
        for interface in ways {
            let next = cabling.far(self.drivers, at, interface);
            self.arrives(next.ok_or(Lost::At(at))?)?;
        }
        self.seen.insert(at, true);
        Ok(())
    }
}

pub(crate) fn port(fibre: &Fibre) -> Port {
    (fibre.optical, fibre.port)
}

pub(crate) fn cable_name(link: LinkId) -> String {
    format!("cable{link}")
}

/// Breadth first from every destination, over what is lit at first.
fn shortest_ways(fabric: &Fabric) -> BTreeMap<(NodeId, Ipv4Addr), Vec<String>> {
    let dark = fabric.dark(fabric.first_circuits());
    let mut ways: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for to in fabric.endpoints() {
        let address = fabric.address(to).expect("every node has an address");
        let (mut reached, mut ring, mut hops) = (BTreeMap::from([(to, 0)]), vec![to], 0);
        while !ring.is_empty() {
            hops += 1;
            let mut next = Vec::new();
            for (near, link) in ring
                .iter()
                .flat_map(|&near| fabric.links_of(near).iter().map(move |&link| (near, link)))
                .filter(|(_, link)| !dark.contains(link))
            {
                let at = fabric.link(link).far(near).node;
                let first = *reached.entry(at).or_insert_with(|| {
                    next.push(at);
                    hops
                });
                if first == hops {
                    let interface = interface(fabric, at, link);
                    ways.entry((at, address)).or_default().push(interface);
                }
            }
            ring = next;
        }
    }
    ways
}

fn interface(fabric: &Fabric, at: NodeId, link: LinkId) -> String {
    let fibre = fabric.fibre_of(at, link);
    fibre.map_or_else(|| cable_name(link), |fibre| fibre.interface.clone())
}
