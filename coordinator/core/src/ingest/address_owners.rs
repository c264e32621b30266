//! The owner of an address: the node to which the fabric gives it, or the host of the NIC to which the fabric gives it,
//! or else the first connected node that claimed it.
//! If two nodes claim it, operators see both, and the second one gets it after the first is gone for good.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use reweave_common::fabric::Fabric;
use reweave_common::ids::NodeId;
use reweave_common::moment::Moment;
use reweave_common::sample::Interface;

#[derive(Debug, Clone, Default)]
pub(crate) struct Addresses {
    owners: BTreeMap<Ipv4Addr, NodeId>,
    /// Addresses of nodes and NICs from the fabric's file.
    fixed: BTreeMap<Ipv4Addr, NodeId>,
    contests: BTreeMap<Ipv4Addr, Contest>,
}

/// Two nodes that claim one address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Contest {
    pub(crate) believed: NodeId,
    pub(crate) other: NodeId,
    /// The interface of the other node, by its own report.
    interface: String,
    /// Since when the owner has been away.
    away: Option<Moment>,
}

/// An address with a new owner.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HandedOver {
    pub(crate) address: Ipv4Addr,
    pub(crate) to: NodeId,
    pub(crate) interface: String,
}

impl Addresses {
    /// More contests are not recorded.
    const MAX_CONTESTS: usize = 256;

    pub(crate) fn of(fabric: &Fabric) -> Self {
        let of_node = |(node, _)| Some((fabric.address(node)?, node));
        let of_nics = fabric.nics();
        let of_nics = of_nics.filter_map(|(_, nic)| Some((nic.address?, nic.host)));
        let of_nodes = fabric.nodes().filter_map(of_node);
        Self {
            fixed: of_nodes.chain(of_nics).collect(),
            ..Self::default()
        }
    }

    pub(crate) fn owners(&self) -> &BTreeMap<Ipv4Addr, NodeId> {
        &self.owners
    }

    pub(crate) fn owner(&self, address: Ipv4Addr) -> Option<NodeId> {
        self.owners.get(&address).copied()
    }

    pub(crate) fn contests(&self) -> impl Iterator<Item = (Ipv4Addr, &Contest)> {
        self.contests.iter().map(|(&address, it)| (address, it))
    }

    /// Claims the address. Returns whether the node owns it now.
    pub(crate) fn claim(
        &mut self,
        node: NodeId,
        interface: &str,
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
                let interface = interface.to_owned();
                let contest = Contest {
                    believed,
                    other: node,
                    interface,
                    away: None,
                };
                self.note(address, contest);
                false
            }
            _ => {
                self.owners.insert(address, node);
                // A foreign claim to an address of the file stays foreign, however often its owner repeats its own.
                if fixed.is_none() {
                    self.contests.remove(&address);
                }
                true
            }
        }
    }

    /// Ends the node's foreign claims to addresses that this interface of it no longer has.
    pub(crate) fn withdraw(&mut self, node: NodeId, interface: &Interface) {
        let is_withdrawn = |address: &Ipv4Addr, contest: &Contest| {
            let is_here = contest.other == node && contest.interface == interface.name;
            is_here && !interface.addresses.contains(address)
        };
        self.contests
            .retain(|address, contest| !is_withdrawn(address, contest));
    }

    pub(crate) fn release(&mut self, address: Ipv4Addr) {
        self.owners.remove(&address);
    }

    /// Releases all addresses of the node.
    pub(crate) fn release_all(&mut self, node: NodeId) {
        self.owners.retain(|_, owner| *owner != node);
        self.settle(node);
    }

    /// Handles the end of a node's session. If it is the owner, the other claim stays recorded, because the other node
    /// does not repeat it.
    pub(crate) fn settle(&mut self, node: NodeId) {
        self.contests.retain(|_, contest| contest.other != node);
    }

    fn note(&mut self, address: Ipv4Addr, contest: Contest) {
        if self.contests.len() < Self::MAX_CONTESTS {
            self.contests.insert(address, contest);
        }
    }

    /// An owner that has been away for this long, or no longer claims the address, loses it to the other node. A
    /// restarted agent keeps its addresses.
    pub(crate) fn hand_over(
        &mut self,
        now: Moment,
        after: Duration,
        is_here: impl Fn(NodeId) -> bool,
    ) -> Vec<HandedOver> {
        for contest in self.contests.values_mut() {
            contest.away = if is_here(contest.believed) {
                None
            } else {
                contest.away.or(Some(now))
            };
        }
        let (fixed, owners) = (&self.fixed, &self.owners);
        let is_over = |address: &Ipv4Addr, contest: &mut Contest| {
            let let_go = owners.get(address) != Some(&contest.believed);
            let gone = contest.away.is_some_and(|since| now.since(since) >= after);
            !fixed.contains_key(address) && (let_go || gone)
        };
        let over = self.contests.extract_if(.., is_over);
        let handed: Vec<_> = over
            .map(|(address, contest)| HandedOver {
                address,
                to: contest.other,
                interface: contest.interface,
            })
            .collect();
        let owned = handed.iter().map(|it| (it.address, it.to));
        self.owners.extend(owned);
        handed
    }
}
