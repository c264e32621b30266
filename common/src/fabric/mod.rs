//! The fabric: nodes, and links with rates and latencies.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::circuit::PortId;
use crate::ids::{LinkId, NodeId};
use crate::names::{self, MAX_NAME_BYTES};
use crate::units::Rate;

mod file;
mod less;
mod nics;
mod optics;
mod rail_pairs;

pub use file::MaxSize;
pub use nics::{Nic, NicSpec, NicUse};
pub use optics::{Circuits, Crossing, Fibre, OpticalSwitch};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = NodeRole))]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Sends and receives, but does not forward.
    Host,
    /// Forwards, but does not send or receive.
    Switch,
    /// A host that also forwards, as directly wired servers do.
    Relay,
}

impl Role {
    pub fn is_endpoint(self) -> bool {
        self != Self::Switch
    }

    pub fn forwards(self) -> bool {
        self != Self::Host
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    pub name: String,
    pub role: Role,
}

/// One end of a link: the `index`-th port of a node, counted in the order of its links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    pub node: NodeId,
    pub index: u32,
}

/// A full-duplex cable; `rate` and `latency` hold for each direction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    pub a: Port,
    pub b: Port,
    pub rate: Rate,
    pub latency: Duration,
}

impl Link {
    pub fn ports(&self) -> [Port; 2] {
        [self.a, self.b]
    }

    /// Returns the end that is not at `node`.
    pub fn far(&self, node: NodeId) -> Port {
        if self.a.node == node { self.b } else { self.a }
    }
}

/// An immutable graph of named nodes and the links between them. Parallel links are allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fabric {
    nodes: Vec<Node>,
    links: Vec<Link>,
    links_of: Vec<Vec<LinkId>>,
    by_name: BTreeMap<String, NodeId>,
    parallel: BTreeSet<LinkId>,
    /// Number of each link among its parallel links, if some of those were removed.
    nths: BTreeMap<LinkId, usize>,
    nics: nics::Nics,
    optics: optics::Optics,
}

impl Fabric {
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = (NodeId, &Node)> {
        self.nodes
            .iter()
            .enumerate()
            .map(|(index, node)| (NodeId::from_index(index), node))
    }

    pub fn links(&self) -> impl ExactSizeIterator<Item = (LinkId, &Link)> {
        self.links
            .iter()
            .enumerate()
            .map(|(index, link)| (LinkId::from_index(index), link))
    }

    /// Returns all nodes that send and receive, in order.
    pub fn endpoints(&self) -> impl Iterator<Item = NodeId> {
        self.nodes()
            .filter(|(_, node)| node.role.is_endpoint())
            .map(|(id, _)| id)
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    pub fn name(&self, id: NodeId) -> &str {
        &self.node(id).name
    }

    pub fn link(&self, id: LinkId) -> &Link {
        &self.links[id.index()]
    }

    pub fn links_of(&self, node: NodeId) -> &[LinkId] {
        &self.links_of[node.index()]
    }

    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.by_name.get(name).copied()
    }

    /// Returns the links between two nodes, in either order.
    pub fn links_between(&self, a: NodeId, b: NodeId) -> impl Iterator<Item = LinkId> + Clone {
        // A host has fewer links than its switch.
        let [few, many] = if self.links_of(a).len() <= self.links_of(b).len() {
            [a, b]
        } else {
            [b, a]
        };
        let links = self.links_of(few).iter().copied();
        links.filter(move |&link| self.link(link).far(few).node == many)
    }

    /// Returns an upper bound on the rate between two nodes: all links of either. None if one of them has no links,
    /// such as a host whose fibres are dark.
    pub fn most_between(&self, a: NodeId, b: NodeId) -> Option<Rate> {
        let carried = |node| {
            let links = self.links_of(node).iter();
            let rates = links.map(|&link| self.link(link).rate.bits_per_s());
            Rate::from_bits_per_s(rates.fold(0, u64::saturating_add))
        };
        let most = carried(a).min(carried(b));
        (most.bits_per_s() > 0).then_some(most)
    }

    /// Whether another link joins the same two nodes.
    pub fn is_parallel(&self, link: LinkId) -> bool {
        self.parallel.contains(&link)
    }

    /// Returns `leaf0-spine1`, or `leaf0-spine1.2` for the third of parallel links.
    pub fn link_name(&self, id: LinkId) -> String {
        let link = self.link(id);
        self.joined_name(id, [link.a.node, link.b.node])
    }

    fn joined_name(&self, id: LinkId, [a, b]: [NodeId; 2]) -> String {
        let suffix = match self.nth(id) {
            0 => String::new(),
            nth => format!(".{nth}"),
        };
        format!("{}-{}{suffix}", self.name(a), self.name(b))
    }

    /// Whether this is the name of the link, or its name with the ends in the other order.
    pub fn is_link_called(&self, id: LinkId, name: &str) -> bool {
        let link = self.link(id);
        let reversed = || self.joined_name(id, [link.b.node, link.a.node]);
        self.link_name(id) == name || reversed() == name
    }

    /// Returns the number of the link among its parallel links, from 0.
    pub fn nth(&self, id: LinkId) -> usize {
        let link = self.link(id);
        let mut all = self.links_between(link.a.node, link.b.node);
        let known = self.nths.get(&id).copied();
        known.unwrap_or_else(|| all.position(|other| other == id).unwrap_or(0))
    }

    /// Searches all links, for names with the ends in either order. A caller with many names should build a map.
    pub fn find_link(&self, name: &str) -> Option<LinkId> {
        let links = || self.links().map(|(id, _)| id);
        let named = links().find(|&id| self.link_name(id) == name);
        named.or_else(|| links().find(|&id| self.is_link_called(id, name)))
    }

    pub fn is_between_switches(&self, id: LinkId) -> bool {
        let ends = self.link(id).ports();
        ends.iter()
            .all(|port| self.node(port.node).role == Role::Switch)
    }
}

/// Reserved: no other node can be reached by this name.
const LOCAL_NAME: &str = "localhost";

/// Reason why two nodes cannot be joined, or a node cannot be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WiringError {
    DuplicateNode {
        name: String,
    },
    BadName {
        name: String,
    },
    LocalName {
        name: String,
    },
    SelfLink {
        name: String,
    },
    DuplicateLink {
        a: String,
        b: String,
    },
    NoSuchPort {
        optical: String,
        port: PortId,
        ports: u16,
    },
    PortTaken {
        optical: String,
        port: PortId,
    },
    DuplicateAddress {
        address: Ipv4Addr,
    },
    NoHost {
        name: String,
    },
    NoSwitch {
        name: String,
    },
    /// A link and a NIC join the same two nodes.
    LinkedWithoutNic {
        host: String,
        to: String,
    },
    DuplicateNicAddress {
        address: Ipv4Addr,
    },
    DuplicateInterface {
        host: String,
        interface: String,
    },
    DuplicateRail {
        host: String,
        rail: u16,
        plane: Option<u16>,
    },
}

impl fmt::Display for WiringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DuplicateNode { name } => write!(f, "there are two nodes named {name:?}"),
            Self::BadName { name } => f.write_str(&names::refusal(name, "node")),
            Self::LocalName { name } => {
                write!(
                    f,
                    "{name:?} is ambiguous, since every host uses it: choose another name"
                )
            }
            Self::SelfLink { name } => write!(f, "{name:?} is linked to itself"),
            Self::NoSuchPort {
                optical,
                port,
                ports,
            } => write!(f, "{optical:?} has ports 1 to {ports}, but no port {port}"),
            Self::PortTaken { optical, port } => {
                write!(f, "port {port} of {optical:?} is taken already")
            }
            Self::DuplicateAddress { address } => {
                write!(f, "two nodes have the address {address}")
            }
            Self::DuplicateLink { a, b } => {
                write!(
                    f,
                    "{a:?} and {b:?} are linked already; write count = 2 for parallel links"
                )
            }
            Self::NoHost { name } => write!(f, "{name:?} is no host"),
            Self::NoSwitch { name } => write!(f, "{name:?} is no switch"),
            Self::LinkedWithoutNic { host, to } => write!(
                f,
                "{host} and {to} are linked by a [[link]] already; write the NIC alone"
            ),
            Self::DuplicateNicAddress { address } => {
                write!(f, "two NICs have the address {address}")
            }
            Self::DuplicateInterface { host, interface } => {
                write!(f, "{host:?} has two NICs named {interface:?}")
            }
            Self::DuplicateRail { host, rail, plane } => {
                write!(f, "{host:?} has two training NICs of rail {rail}")?;
                plane.map_or(Ok(()), |plane| write!(f, " in plane {plane}"))
            }
        }
    }
}

impl std::error::Error for WiringError {}

/// Builds a fabric, and refuses pieces that do not fit.
#[derive(Debug, Default)]
pub struct FabricBuilder {
    fabric: Fabric,
    joined: BTreeSet<[NodeId; 2]>,
    /// First of the links between each pair of nodes.
    firsts: BTreeMap<[NodeId; 2], LinkId>,
    declared_nics: nics::DeclaredNics,
}

impl FabricBuilder {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn add_node(&mut self, name: &str, role: Role) -> Result<NodeId, WiringError> {
        if !names::is_plain(name, MAX_NAME_BYTES) {
            return Err(WiringError::BadName {
                name: name.to_owned(),
            });
        }
        if name.eq_ignore_ascii_case(LOCAL_NAME) {
            return Err(WiringError::LocalName {
                name: name.to_owned(),
            });
        }
        let id = NodeId::from_index(self.fabric.nodes.len());
        if self.fabric.by_name.insert(name.to_owned(), id).is_some() {
            return Err(WiringError::DuplicateNode {
                name: name.to_owned(),
            });
        }
        self.fabric.nodes.push(Node {
            name: name.to_owned(),
            role,
        });
        self.fabric.links_of.push(Vec::new());
        Ok(id)
    }

    pub fn find(&self, name: &str) -> Option<NodeId> {
        self.fabric.find(name)
    }

    /// Joins two nodes by `count` parallel links. They must not be joined yet.
    pub fn connect(
        &mut self,
        [a, b]: [NodeId; 2],
        count: u32,
        rate: Rate,
        latency: Duration,
    ) -> Result<(), WiringError> {
        let name = |node| self.fabric.name(node).to_owned();
        if a == b {
            return Err(WiringError::SelfLink { name: name(a) });
        }
        self.joins_no_nic([a, b])?;
        if !self.joined.insert([a.min(b), a.max(b)]) {
            return Err(WiringError::DuplicateLink {
                a: name(a),
                b: name(b),
            });
        }
        for _ in 0..count {
            let link = self.add_link([a, b], rate, latency);
            self.add_implied_nics([a, b], link);
        }
        Ok(())
    }

    pub fn build(mut self) -> Fabric {
        self.number_rails();
        self.fabric.sort_nics();
        self.fabric
    }

    fn add_link(&mut self, ends: [NodeId; 2], rate: Rate, latency: Duration) -> LinkId {
        let id = LinkId::from_index(self.fabric.links.len());
        let [a, b] = ends;
        let first = *self.firsts.entry([a.min(b), a.max(b)]).or_insert(id);
        if first != id {
            self.fabric.parallel.extend([first, id]);
        }
        let [a, b] = ends.map(|node| self.add_port(node, id));
        self.fabric.links.push(Link {
            a,
            b,
            rate,
            latency,
        });
        id
    }

    fn add_port(&mut self, node: NodeId, link: LinkId) -> Port {
        let ports = &mut self.fabric.links_of[node.index()];
        ports.push(link);
        Port {
            node,
            index: ports.len() as u32 - 1,
        }
    }
}
