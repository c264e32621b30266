//! Which interface is which end of which link.
//!
//! Two interfaces are joined when their addresses lie in one /31, or when the gateway of one is an address of the
//! other, and the fabric has a link between their nodes. Addresses alone say less than routes: loopbacks that were
//! numbered one after the other look like the two addresses of one /31. Ambiguous pairs are left out.
//!
//! Which of parallel links a pair of interfaces is, a NIC's address or interface in the fabric file says.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use reweave_common::fabric::{Fabric, Nic, NicUse};
use reweave_common::ids::{LinkId, NicId, NodeId};
use reweave_common::observations::NodeObservations;
use reweave_common::sample::Interface;
use reweave_common::snapshot::Hop;

/// The known interfaces at the ends of links.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wiring {
    /// By the node at this end.
    ends: BTreeMap<Hop, End>,
    seats: BTreeMap<Ipv4Addr, Seat>,
    links: BTreeMap<Seat, LinkId>,
    nics: BTreeMap<Ipv4Addr, LinkId>,
    /// Addresses of NICs for storage and management.
    other_uses: BTreeSet<Ipv4Addr>,
}

/// One end of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    pub interface: String,
    /// The address by which the other end reaches it.
    pub address: Ipv4Addr,
}

/// Nodes with current reports, and the reports.
pub type Reporting<'o> = BTreeMap<NodeId, &'o NodeObservations>;
/// An interface of a node.
type Seat = (NodeId, String);
/// Pairs of interfaces that face each other, with the evidence.
type Pairs = BTreeMap<[Seat; 2], Facing>;
type Pair<'p> = (&'p [Seat; 2], &'p Facing);

/// Two interfaces that face each other.
#[derive(Debug, Clone, Copy)]
struct Facing {
    addresses: [Ipv4Addr; 2],
    /// Whether routes prove it, or only addresses.
    is_routed: bool,
}

impl Wiring {
    pub fn new(fabric: &Fabric, nodes: &Reporting<'_>) -> Self {
        let seats = seats(nodes);
        let mut pairs = pairs(nodes, &seats);
        pairs.retain(|[(a, _), (b, _)], _| cables(fabric, *a, *b).next().is_some());
        let mut wiring = Self {
            seats,
            ..Self::default()
        };
        drop_contradicted(&mut pairs);
        for (nodes, pairs) in by_nodes(unambiguous(&pairs)) {
            wiring.join(fabric, nodes, pairs);
        }
        wiring.nics = wiring.links_of_nics(fabric);
        wiring.other_uses = wiring.addresses_of_other_uses(fabric);
        wiring
    }

    /// Whether the address is of no NIC for storage or management.
    pub(crate) fn is_for_training(&self, address: Ipv4Addr) -> bool {
        !self.other_uses.contains(&address)
    }

    fn addresses_of_other_uses(&self, fabric: &Fabric) -> BTreeSet<Ipv4Addr> {
        let has_other_use = |id: &NicId| fabric.nic(*id).purpose != NicUse::Training;
        if !fabric.nics().any(|(id, _)| has_other_use(&id)) {
            return BTreeSet::new();
        }
        let reported = self.seats.keys().copied();
        let reported = reported.filter(|&address| {
            let nic = self.nic(fabric, address);
            nic.as_ref().is_some_and(has_other_use)
        });
        let declared = fabric.nics().filter(|(id, _)| has_other_use(id));
        let declared = declared.filter_map(|(_, nic)| nic.address);
        reported.chain(declared).collect()
    }

    /// The NIC with this address: by the link or the interface that its host reported, or else by the fabric's file.
    pub(crate) fn nic(&self, fabric: &Fabric, address: Ipv4Addr) -> Option<NicId> {
        let declared = fabric.nic_with(address);
        let reported = self.seats.get(&address).and_then(|(host, interface)| {
            let is_own = declared.is_none_or(|nic| fabric.nic(nic).host == *host);
            is_own.then(|| self.nic_of(fabric, *host, interface))?
        });
        reported.or(declared)
    }

    /// The NIC that is this interface of a host: by its link, or else by its name in the fabric's file. A storage
    /// network without agents has no known links.
    pub(crate) fn nic_of(&self, fabric: &Fabric, host: NodeId, interface: &str) -> Option<NicId> {
        let nics = || fabric.nics_of(host).iter().copied();
        let is_named = |id: &NicId| fabric.nic(*id).interface.as_deref() == Some(interface);
        let link = self.link_at(host, interface);
        let by_link = link.and_then(|link| nics().find(|&id| fabric.nic(id).link == link));
        by_link.or_else(|| nics().find(is_named))
    }

    /// The link of the NIC with each address: by what its host reports, or else by the fabric's file. Empty if the
    /// file declares no NICs: packets for one address of a host may then arrive over any of its links.
    pub(crate) fn nics(&self) -> &BTreeMap<Ipv4Addr, LinkId> {
        &self.nics
    }

    fn links_of_nics(&self, fabric: &Fabric) -> BTreeMap<Ipv4Addr, LinkId> {
        if !fabric.has_declared_nics() {
            return BTreeMap::new();
        }
        let reported = self.seats.iter().filter_map(|(&address, seat)| {
            let link = *self.links.get(seat)?;
            let mut nics = fabric.nics_of(seat.0).iter();
            let is_nic = nics.any(|&nic| fabric.nic(nic).link == link);
            // An address that was moved to another NIC is there, but no other host can take it.
            let declared = fabric.nic_with(address).map(|nic| fabric.nic(nic));
            let is_own = declared.is_none_or(|nic| nic.host == seat.0);
            (is_nic && is_own).then_some((address, link))
        });
        let declared = fabric.nics();
        let declared = declared.filter_map(|(_, nic)| Some((nic.address?, nic.link)));
        declared.chain(reported).collect()
    }

    pub fn end(&self, hop: Hop) -> Option<&End> {
        self.ends.get(&hop)
    }

    /// The node with this address.
    pub fn node(&self, address: Ipv4Addr) -> Option<NodeId> {
        self.seats.get(&address).map(|(node, _)| *node)
    }

    /// The link that ends at this interface.
    pub fn link_at(&self, node: NodeId, interface: &str) -> Option<LinkId> {
        self.links.get(&(node, interface.to_owned())).copied()
    }

    pub(crate) fn addresses(&self) -> BTreeMap<Ipv4Addr, NodeId> {
        self.seats
            .iter()
            .map(|(&address, (node, _))| (address, *node))
            .collect()
    }

    /// The only address by which others reach this node over the fabric, if there is one.
    pub(crate) fn only_address(&self, node: NodeId) -> Option<Ipv4Addr> {
        let mut own = self.addresses_of(node);
        let address = own.next()?;
        own.next().is_none().then_some(address)
    }

    /// All addresses by which others reach this node over the fabric.
    pub(crate) fn addresses_of(&self, node: NodeId) -> impl Iterator<Item = Ipv4Addr> {
        let own = self.seats.iter().filter(move |(_, seat)| seat.0 == node);
        let own = own.filter(|(_, seat)| self.links.contains_key(seat));
        own.map(|(&address, _)| address)
    }

    /// The link that ends at the interface with this address.
    pub(crate) fn link(&self, address: Ipv4Addr) -> Option<LinkId> {
        self.links.get(self.seats.get(&address)?).copied()
    }

    /// Matches parallel links. Those that the file does not tell apart are alike, so they are assigned in ascending
    /// order of addresses, once all of them are known.
    fn join(&mut self, fabric: &Fabric, nodes: [NodeId; 2], mut pairs: Vec<Pair<'_>>) {
        let mut links: Vec<_> = cables(fabric, nodes[0], nodes[1]).collect();
        self.join_declared(fabric, &mut links, &mut pairs);
        if pairs.len() > links.len() {
            pairs.retain(|(_, facing)| facing.is_routed);
        }
        if links.len() != pairs.len() {
            return;
        }
        pairs.sort_by_key(|(_, facing)| facing.addresses.iter().min());
        for (link, pair) in links.into_iter().zip(pairs) {
            self.assign(link, pair);
        }
    }

    /// Matches the cables of NICs with an address or an interface in the file, and leaves the others.
    fn join_declared(
        &mut self,
        fabric: &Fabric,
        links: &mut Vec<LinkId>,
        pairs: &mut Vec<Pair<'_>>,
    ) {
        links.retain(|&link| {
            let nic = fabric.nic_at(link).map(|nic| fabric.nic(nic));
            let Some(seat) = nic.and_then(|nic| self.declared_seat(nic)) else {
                return true;
            };
            let Some(place) = pairs.iter().position(|(seats, _)| seats.contains(&seat)) else {
                return true;
            };
            self.assign(link, pairs.swap_remove(place));
            false
        });
    }

    /// The interface with the NIC's address in the file, else the one with its name there.
    fn declared_seat(&self, nic: &Nic) -> Option<Seat> {
        let seat = nic.address.and_then(|address| self.seats.get(&address));
        let own = seat.filter(|(node, _)| *node == nic.host);
        let by_name = || Some((nic.host, nic.interface.clone()?));
        own.cloned().or_else(by_name)
    }

    fn assign(&mut self, link: LinkId, (seats, facing): Pair<'_>) {
        for (seat, address) in seats.iter().zip(facing.addresses) {
            let (node, interface) = seat.clone();
            self.ends
                .insert(Hop { from: node, link }, End { interface, address });
            self.links.insert(seat.clone(), link);
        }
    }
}

/// The cables between two nodes. A fibre's other end follows from its circuit, not from addresses.
fn cables(fabric: &Fabric, a: NodeId, b: NodeId) -> impl Iterator<Item = LinkId> {
    let links = fabric.links_between(a, b);
    links.filter(|link| fabric.crossing(*link).is_none())
}

fn seats(nodes: &Reporting<'_>) -> BTreeMap<Ipv4Addr, Seat> {
    let all = interfaces(nodes);
    all.flat_map(|(seat, i)| i.addresses.iter().map(move |&a| (a, seat.clone())))
        .collect()
}

fn interfaces<'o>(nodes: &Reporting<'o>) -> impl Iterator<Item = (Seat, &'o Interface)> {
    nodes.iter().flat_map(|(&node, observed)| {
        let interfaces = observed.interfaces.values().map(|aged| &aged.value);
        interfaces.map(move |interface| ((node, interface.name.clone()), interface))
    })
}

/// All pairs of interfaces that face each other. A pair in one /31 is found by the addresses in it.
fn pairs(nodes: &Reporting<'_>, seats: &BTreeMap<Ipv4Addr, Seat>) -> Pairs {
    let mut pairs = Pairs::new();
    let mut face = |[a, b]: [(&Seat, Ipv4Addr); 2], is_routed| {
        if a.0.0 != b.0.0 {
            let [a, b] = if a.0 < b.0 { [a, b] } else { [b, a] };
            let addresses = [a.1, b.1];
            let facing = pairs.entry([a.0.clone(), b.0.clone()]).or_insert(Facing {
                addresses,
                is_routed,
            });
            facing.is_routed |= is_routed;
        }
    };
    for (&address, seat) in seats {
        let peer = other_of_two(address);
        seats
            .get(&peer)
            .into_iter()
            .for_each(|other| face([(seat, address), (other, peer)], false));
    }
    for (seat, interface) in interfaces(nodes) {
        let Some(&own) = interface.addresses.first() else {
            continue;
        };
        for &gateway in &interface.gateways {
            seats
                .get(&gateway)
                .into_iter()
                .for_each(|other| face([(&seat, own), (other, gateway)], true));
        }
    }
    pairs
}

/// Drops pairs by address whose interfaces have routes elsewhere.
fn drop_contradicted(pairs: &mut Pairs) {
    let routed = pairs.iter().filter(|(_, facing)| facing.is_routed);
    let routed: BTreeSet<_> = routed.flat_map(|(seats, _)| seats.clone()).collect();
    pairs.retain(|seats, facing| {
        facing.is_routed || !seats.iter().any(|seat| routed.contains(seat))
    });
}

/// The other address of a /31.
pub(crate) fn other_of_two(address: Ipv4Addr) -> Ipv4Addr {
    Ipv4Addr::from_bits(address.to_bits() ^ 1)
}

/// Pairs of which neither interface is in another pair.
fn unambiguous(pairs: &Pairs) -> impl Iterator<Item = Pair<'_>> {
    let mut facing: BTreeMap<&Seat, usize> = BTreeMap::new();
    for seat in pairs.keys().flatten() {
        *facing.entry(seat).or_default() += 1;
    }
    pairs
        .iter()
        .filter(move |(seats, _)| seats.iter().all(|seat| facing[seat] == 1))
}

fn by_nodes<'p>(pairs: impl Iterator<Item = Pair<'p>>) -> BTreeMap<[NodeId; 2], Vec<Pair<'p>>> {
    let mut by_nodes: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (seats, addresses) in pairs {
        let [(a, _), (b, _)] = seats;
        by_nodes
            .entry([*a, *b])
            .or_default()
            .push((seats, addresses));
    }
    by_nodes
}
