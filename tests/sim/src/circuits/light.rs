//! Paths of packets: by the state of kernels, and from there by light, independent of the intended next hop.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use reweave_common::circuit::PortId;
use reweave_common::fabric::{Fabric, Fibre};
use reweave_common::ids::{LinkId, NodeId, OpticalId};
use reweave_common::moment::Moment;

use super::driver::Driver;
use super::node::Node;

pub type Nodes = BTreeMap<NodeId, Node>;
pub type Drivers = BTreeMap<OpticalId, Driver>;
/// A port of an optical switch.
pub type Port = (OpticalId, PortId);

/// Time after which the coordinator knows what an agent has found, if it receives anything.
const REPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Cables and fibres. They change only by breaks.
#[derive(Debug, Clone)]
pub struct Cabling {
    broken: BTreeSet<Plug>,
    /// Nodes at the ends of these, until agents have put back what they could not hold meanwhile, and when
    /// they had.
    damaged: BTreeMap<NodeId, Option<Moment>>,
    pub fabric: Arc<Fabric>,
    plugs: BTreeMap<NodeId, BTreeMap<String, Plug>>,
    owners: BTreeMap<Port, NodeId>,
    /// Routes that were set up by hand before the first instruction: by destination.
    own: BTreeMap<(NodeId, Ipv4Addr), Vec<String>>,
}

/// Place at which an interface is plugged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plug {
    Cable(LinkId),
    Fibre(Port),
}

/// Packets that do not arrive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    InACircle(NodeId),
    At(NodeId),
}

impl Cabling {
    /// Creates the cabling, with the initial shortest paths.
    pub fn new(fabric: Arc<Fabric>) -> Self {
        let mut plugs: BTreeMap<NodeId, BTreeMap<String, Plug>> = BTreeMap::new();
        let fibres = fabric
            .fibres()
            .map(|it| (it.node, it.interface.clone(), Plug::Fibre(port(it))));
        let cables = fabric
            .links()
            .filter(|(link, _)| fabric.crossing(*link).is_none());
        let cables = cables.flat_map(|(link, it)| {
            let ends = it.ports().map(|port| port.node);
            ends.map(|node| (node, cable_name(link), Plug::Cable(link)))
        });
        for (node, interface, jack) in fibres.chain(cables) {
            plugs.entry(node).or_default().insert(interface, jack);
        }
        let owners = fabric.fibres().map(|it| (port(it), it.node)).collect();
        let own = shortest_ways(&fabric);
        Self {
            broken: BTreeSet::new(),
            damaged: BTreeMap::new(),
            fabric,
            plugs,
            owners,
            own,
        }
    }

    pub fn interfaces(&self, node: NodeId) -> impl Iterator<Item = &str> {
        let plugs = self.plugs.get(&node).into_iter();
        plugs.flat_map(|plugs| plugs.keys().map(String::as_str))
    }

    /// Returns the number of a node's interfaces with light without faults.
    pub fn lit_at_first(&self, at: NodeId) -> usize {
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

    /// Returns the node at the other end of an interface now.
    pub fn far(&self, drivers: &Drivers, at: NodeId, interface: &str) -> Option<NodeId> {
        match *self.plugs.get(&at)?.get(interface)? {
            _ if self.is_broken(drivers, at, interface) => None,
            Plug::Cable(link) => Some(self.fabric.link(link).far(at).node),
            Plug::Fibre((optical, port)) => {
                let far = drivers[&optical].device.far(port)?;
                self.owners.get(&(optical, far)).copied()
            }
        }
    }

    /// Whether the cable or fibre is broken at either end.
    fn is_broken(&self, drivers: &Drivers, at: NodeId, interface: &str) -> bool {
        let plug = self.plugs.get(&at).and_then(|plugs| plugs.get(interface));
        let Some(plug) = plug.filter(|_| !self.broken.is_empty()) else {
            return false;
        };
        let far = match *plug {
            Plug::Cable(_) => None,
            Plug::Fibre((optical, port)) => {
                let far = drivers[&optical].device.far(port);
                far.map(|far| Plug::Fibre((optical, far)))
            }
        };
        [Some(*plug), far]
            .iter()
            .flatten()
            .any(|it| self.broken.contains(it))
    }

    /// Returns everything that can break.
    pub fn plugs(&self) -> BTreeSet<Plug> {
        self.plugs
            .values()
            .flat_map(BTreeMap::values)
            .copied()
            .collect()
    }

    pub fn is_damaged(&self, at: NodeId) -> bool {
        self.damaged.get(&at).is_some_and(Option::is_none)
    }

    /// Whether a node is damaged, or was until recently, so that the coordinator may not know of the repair.
    pub fn seems_damaged(&self, at: NodeId, now: Moment) -> bool {
        let damaged = self.damaged.get(&at);
        damaged.is_some_and(|until| until.is_none_or(|until| now.since(until) < REPORT_TIMEOUT))
    }

    pub fn breaks(&mut self, drivers: &Drivers, plug: Plug) {
        self.broken.insert(plug);
        let nodes = self.plugs.keys().copied();
        let damaged: Vec<_> = nodes
            .filter(|it| self.is_at_a_break(drivers, *it))
            .collect();
        self.damaged
            .extend(damaged.into_iter().map(|node| (node, None)));
    }

    pub fn mend(&mut self, plug: Plug) {
        self.broken.remove(&plug);
    }

    pub fn mend_all(&mut self) {
        self.broken.clear();
    }

    /// An agent has found that it holds what it can.
    pub fn looked_after(&mut self, drivers: &Drivers, node: NodeId, now: Moment) {
        if self.is_damaged(node) && !self.is_at_a_break(drivers, node) {
            self.damaged.insert(node, Some(now));
        }
    }

    fn is_at_a_break(&self, drivers: &Drivers, node: NodeId) -> bool {
        let mut interfaces = self.interfaces(node);
        interfaces.any(|it| self.is_broken(drivers, node, it))
    }

    /// The port of an optical switch that this interface is plugged into.
    pub fn port(&self, at: NodeId, interface: &str) -> Option<Port> {
        match *self.plugs.get(&at)?.get(interface)? {
            Plug::Cable(_) => None,
            Plug::Fibre(port) => Some(port),
        }
    }

    /// The interfaces by which a node sends on what is for this address.
    pub fn ways<'a>(&'a self, node: &'a Node, to: Ipv4Addr) -> Vec<&'a str> {
        if let Some(group) = node.kernel.routes.get(&to) {
            let hops = &node.kernel.groups[group];
            return hops.iter().map(|hop| hop.interface.as_str()).collect();
        }
        let own = self.own.get(&(node.id, to)).into_iter().flatten();
        own.map(String::as_str).collect()
    }

    /// Returns all ports that packets pass if every host sends to every other.
    pub fn used(&self, nodes: &Nodes, drivers: &Drivers) -> BTreeSet<Port> {
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

    /// Returns the addresses of all other hosts.
    fn addresses(&self, but: NodeId) -> impl Iterator<Item = Ipv4Addr> {
        let others = self.fabric.endpoints().filter(move |&node| node != but);
        others.filter_map(|node| self.fabric.address(node))
    }

    /// Returns a packet that is lost on a path to any host.
    pub fn lost(&self, nodes: &Nodes, drivers: &Drivers) -> Option<(NodeId, Lost)> {
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

/// Paths from all hosts to one node.
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
        // A loss by a break is not a program's mistake.
        let is_whole = |it: &&str| !cabling.is_broken(self.drivers, at, it);
        for interface in ways.into_iter().filter(is_whole) {
            let next = cabling.far(self.drivers, at, interface);
            self.arrives(next.ok_or(Lost::At(at))?)?;
        }
        self.seen.insert(at, true);
        Ok(())
    }
}

pub fn port(fibre: &Fibre) -> Port {
    (fibre.optical, fibre.port)
}

pub fn cable_name(link: LinkId) -> String {
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
