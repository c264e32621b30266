//! Paths of packets: by the pins of switches, else by a hash among the shortest paths. Hash and routes are implemented
//! here, so that the planner is judged independently.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use reweave_common::fabric::Fabric;
use reweave_common::flow::{FlowKey, Protocol};
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::snapshot::Hop;

use super::addresses::{Addresses, link_of_rule};
use super::kernel::Kernel;

pub type Kernels = BTreeMap<NodeId, Kernel>;

/// Longer than any valid path.
const MAX_HOPS: usize = 32;

/// Reason why packets of a flow do not arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    InALoop,
    /// This node has no next hop.
    At(NodeId),
}

/// By the node that has the choice: its links that lead on.
type Tree = Vec<Vec<LinkId>>;

/// Links towards each node that sends and receives, and towards each NIC where the fabric declares NICs.
#[derive(Debug, Clone)]
pub struct LinkChoices {
    towards: BTreeMap<NodeId, Tree>,
    towards_nics: BTreeMap<Ipv4Addr, Tree>,
    /// The link of the NIC with each address.
    nics: BTreeMap<Ipv4Addr, LinkId>,
    salt: u64,
}

impl LinkChoices {
    /// Switches with another `salt` choose otherwise.
    pub fn new(fabric: &Fabric, addresses: &Addresses, salt: u64) -> Self {
        let towards = fabric.endpoints().map(|to| (to, tree(fabric, to, None)));
        let nics = addresses.nics().iter();
        let towards_nics = nics.filter_map(|(&address, &link)| {
            let host = addresses.owner(address)?;
            Some((address, tree(fabric, host, Some(link))))
        });
        Self {
            towards: towards.collect(),
            towards_nics: towards_nics.collect(),
            nics: addresses.nics().clone(),
            salt,
        }
    }

    /// The hops that a packet of this flow takes now.
    pub fn path(
        &self,
        fabric: &Fabric,
        kernels: &Kernels,
        flow: &FlowKey,
        [from, to]: [NodeId; 2],
    ) -> Result<Vec<Hop>, Lost> {
        let mut path = Vec::new();
        let mut at = from;
        while at != to {
            if path.len() == MAX_HOPS {
                return Err(Lost::InALoop);
            }
            let pin = kernels.get(&at).and_then(|kernel| kernel.followed(flow));
            let link = match pin {
                Some(rule) => link_of_rule(fabric, at, rule),
                None if at == from => {
                    let bound = self.bound_to(fabric, from, flow);
                    bound.or_else(|| self.hashed(at, to, flow))
                }
                None => self.hashed(at, to, flow),
            };
            let link = link.ok_or(Lost::At(at))?;
            path.push(Hop { from: at, link });
            at = fabric.link(link).far(at).node;
            if at != to && !fabric.node(at).role.forwards() {
                return Err(Lost::At(at));
            }
        }
        Ok(path)
    }

    /// A host routes by the source, too: what is sent from the address of a NIC leaves by that NIC.
    fn bound_to(&self, fabric: &Fabric, from: NodeId, flow: &FlowKey) -> Option<LinkId> {
        let link = self.nics.get(flow.source.ip()).copied()?;
        fabric.links_of(from).contains(&link).then_some(link)
    }

    fn hashed(&self, at: NodeId, to: NodeId, flow: &FlowKey) -> Option<LinkId> {
        let towards_nic = self.towards_nics.get(flow.destination.ip());
        let tree = towards_nic.or_else(|| self.towards.get(&to))?;
        let links = tree.get(at.index())?;
        let choice = hash(flow, self.salt ^ at.index() as u64);
        let index = choice.checked_rem(links.len() as u64)?;
        links.get(index as usize).copied()
    }
}

/// FNV-1a over the five fields, with its last bits well mixed.
fn hash(flow: &FlowKey, salt: u64) -> u64 {
    let [source, destination] = [flow.source, flow.destination];
    let protocol = match flow.protocol {
        Protocol::Tcp => 6,
        Protocol::Udp => 17,
    };
    let bytes = salt.to_be_bytes().into_iter().chain([protocol]);
    let bytes = bytes
        .chain(source.ip().octets())
        .chain(destination.ip().octets());
    let bytes = bytes.chain(source.port().to_be_bytes());
    let bytes = bytes.chain(destination.port().to_be_bytes());
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325, fold);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

/// Returns for each node its links to neighbours that are one hop nearer to `to`, which is reached over the link of a NIC
/// alone if there is one.
fn tree(fabric: &Fabric, to: NodeId, nic: Option<LinkId>) -> Tree {
    let mut nearer = vec![Vec::new(); fabric.nodes().len()];
    let mut distance = vec![usize::MAX; fabric.nodes().len()];
    distance[to.index()] = 0;
    let mut ring = vec![to];
    while !ring.is_empty() {
        let mut next_ring = Vec::new();
        for at in ring {
            if at != to && !fabric.node(at).role.forwards() {
                continue;
            }
            let is_entry = |link: LinkId| at != to || nic.is_none_or(|nic| nic == link);
            let links = fabric.links_of(at).iter().copied();
            for link in links.filter(|&link| is_entry(link)) {
                let far = fabric.link(link).far(at).node;
                if distance[far.index()] == usize::MAX {
                    distance[far.index()] = distance[at.index()] + 1;
                    next_ring.push(far);
                }
                if distance[far.index()] == distance[at.index()] + 1 {
                    nearer[far.index()].push(link);
                }
            }
        }
        ring = next_ring;
    }
    nearer
}
