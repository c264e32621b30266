//! Whose an address is: the node's to which the fabric gives it, or else the first one's that said so and
//! is here. Where two say so, people are told of both.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;

#[derive(Debug, Clone, Default)]
pub(crate) struct Addresses {
    owners: BTreeMap<Ipv4Addr, NodeId>,
    /// As the fabric has it, whoever comes first.
    fixed: BTreeMap<Ipv4Addr, NodeId>,
    contests: BTreeMap<Ipv4Addr, Contest>,
}

/// Two nodes that say that an address is theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Contest {
    pub(crate) believed: NodeId,
    pub(crate) other: NodeId,
}

impl Addresses {
    /// Beyond, they are many enough to look for.
    const MOST_CONTESTS: usize = 256;

    pub(crate) fn of(fabric: &Fabric) -> Self {
        let named = |(node, _)| Some((fabric.address(node)?, node));
        Self {
            fixed: fabric.nodes().filter_map(named).collect(),
            ..Self::default()
        }
    }

    pub(crate) fn owners(&self) -> &BTreeMap<Ipv4Addr, NodeId> {
        &self.owners
    }

    pub(crate) fn owner(&self, address: Ipv4Addr) -> Option<NodeId> {
        self.owners.get(&address).copied()
    }

    pub(crate) fn contests(&self) -> impl Iterator<Item = (Ipv4Addr, Contest)> {
        self.contests.iter().map(|(&address, &it)| (address, it))
    }

    /// Whether the address is the node's from now on, or was already.
    pub(crate) fn claim(
        &mut self,
        node: NodeId,
        address: Ipv4Addr,
        is_here: impl Fn(NodeId) -> bool,
    ) -> bool {
        if address.is_loopback() {
            return false;
        }
        let fixed = self.fixed.get(&address).copied();
        let believed = fixed.or_else(|| self.owner(address).filter(|it| is_here(*it)));
        match believed {
            Some(believed) if believed != node => {
                self.note(address, believed, node);
                false
            }
            _ => {
                self.owners.insert(address, node);
                self.contests.remove(&address);
                true
            }
        }
    }

    pub(crate) fn release(&mut self, address: Ipv4Addr) {
        self.owners.remove(&address);
    }

    /// Nothing is the node's any more.
    pub(crate) fn release_all(&mut self, node: NodeId) {
        self.owners.retain(|_, owner| *owner != node);
        self.settle(node);
    }

    /// Who is not here asks for nothing. When the believed one goes, the other has said it once and is not
    /// heard of it again, so that people should still know.
    pub(crate) fn settle(&mut self, node: NodeId) {
        self.contests.retain(|_, contest| contest.other != node);
    }

    fn note(&mut self, address: Ipv4Addr, believed: NodeId, other: NodeId) {
        if self.contests.len() < Self::MOST_CONTESTS {
            self.contests.insert(address, Contest { believed, other });
        }
    }
}
