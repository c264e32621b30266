//! NICs of hosts: each is a cable, with a rail, a use, and the interface and address that the file gives it.
//!
//! Every cable of a host is a NIC, so a file without NICs has them too: they are implied, for training, and numbered in
//! the order of their links. Fibres and the links of relays are no NICs.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::net::Ipv4Addr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Fabric, FabricBuilder, Role, WiringError};
use crate::ids::{LinkId, NicId, NodeId};
use crate::units::Rate;

/// Traffic of a NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum NicUse {
    #[default]
    Training,
    Storage,
    Management,
}

impl NicUse {
    pub const ALL: [Self; 3] = [Self::Training, Self::Storage, Self::Management];

    /// Returns the name in fabric files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Training => "training",
            Self::Storage => "storage",
            Self::Management => "management",
        }
    }
}

/// A NIC of a host and the cable that ends at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nic {
    pub host: NodeId,
    pub link: LinkId,
    pub interface: Option<String>,
    pub address: Option<Ipv4Addr>,
    /// Number among the host's NICs of this use, from 0.
    pub rail: u16,
    pub plane: Option<u16>,
    pub purpose: NicUse,
    /// NUMA node of the NIC's slot.
    pub numa: Option<u16>,
    /// Index of the GPU that the NIC serves.
    pub gpu: Option<u16>,
}

/// Declared properties of a NIC. Without a rail, it gets the lowest one that is free.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NicSpec {
    pub interface: Option<String>,
    pub address: Option<Ipv4Addr>,
    pub rail: Option<u16>,
    pub plane: Option<u16>,
    pub purpose: NicUse,
    pub numa: Option<u16>,
    pub gpu: Option<u16>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Nics {
    /// In the order of their links. A link between two hosts is a NIC of each.
    all: Vec<Nic>,
    /// By host: training NICs first, in order of rail, then of the file.
    of_host: Vec<Vec<NicId>>,
    by_address: BTreeMap<Ipv4Addr, NicId>,
    rail_count: u16,
    has_declared: bool,
}

impl Nics {
    /// Returns the NICs of these links, by their new numbers.
    pub(super) fn on_links(&self, numbers: &BTreeMap<LinkId, LinkId>) -> Self {
        let mut left = Self {
            has_declared: self.has_declared,
            ..Self::default()
        };
        for nic in &self.all {
            if let Some(&link) = numbers.get(&nic.link) {
                left.push(Nic {
                    link,
                    ..nic.clone()
                });
            }
        }
        left
    }

    fn push(&mut self, nic: Nic) -> NicId {
        let id = NicId::from_index(self.all.len());
        self.by_address
            .extend(nic.address.map(|address| (address, id)));
        self.all.push(nic);
        id
    }
}

impl Fabric {
    pub fn nics(&self) -> impl ExactSizeIterator<Item = (NicId, &Nic)> {
        let nics = self.nics.all.iter().enumerate();
        nics.map(|(index, nic)| (NicId::from_index(index), nic))
    }

    pub fn nic(&self, id: NicId) -> &Nic {
        &self.nics.all[id.index()]
    }

    /// Returns the NICs of a host: for training first, then for storage, then for management; each in order of rail,
    /// then of the file. None for what is no host.
    pub fn nics_of(&self, host: NodeId) -> &[NicId] {
        let of_host = self.nics.of_host.get(host.index());
        of_host.map_or(&[][..], Vec::as_slice)
    }

    /// Returns the NIC that this link ends at. Of a link between two hosts, it is the NIC of its first end.
    pub fn nic_at(&self, link: LinkId) -> Option<NicId> {
        let nics = &self.nics.all;
        let index = nics.partition_point(|nic| nic.link < link);
        let nic = nics.get(index).filter(|nic| nic.link == link);
        nic.map(|_| NicId::from_index(index))
    }

    /// Whether the link ends at no NIC for storage or management.
    pub fn is_for_training(&self, link: LinkId) -> bool {
        let nic = self.nic_at(link).map(|id| self.nic(id));
        nic.is_none_or(|nic| nic.purpose == NicUse::Training)
    }

    /// Returns the links of a node, without those of NICs for storage or management.
    pub fn training_links(&self, node: NodeId) -> impl Iterator<Item = LinkId> {
        let links = self.links_of(node).iter().copied();
        links.filter(move |&link| self.is_for_training(link))
    }

    /// Returns the NIC with this address in the file.
    pub fn nic_with(&self, address: Ipv4Addr) -> Option<NicId> {
        self.nics.by_address.get(&address).copied()
    }

    /// Returns the switch at the other end of a NIC's cable. None if that end is no switch.
    pub fn leaf_of(&self, nic: NicId) -> Option<NodeId> {
        let Nic { host, link, .. } = *self.nic(nic);
        let far = self.link(link).far(host).node;
        (self.node(far).role == Role::Switch).then_some(far)
    }

    /// Returns the NICs that hang on this switch, in the order of its links.
    pub fn nics_behind(&self, leaf: NodeId) -> impl Iterator<Item = &Nic> {
        let links = self.links_of(leaf).iter();
        let nics = links.filter_map(|&link| self.nic_at(link));
        nics.map(|id| self.nic(id))
            .filter(move |nic| nic.host != leaf)
    }

    /// Returns what routes by leaf lead to: each switch with NICs in place of these, and each endpoint without a NIC at
    /// a switch. Packets for all NICs of a switch have the same routes until they are there.
    pub fn leaf_destinations(&self) -> BTreeSet<NodeId> {
        let leaves = |node| {
            let nics = self.nics_of(node).iter();
            nics.filter_map(move |&nic| self.leaf_of(nic))
        };
        let mut destinations: BTreeSet<_> = self.endpoints().flat_map(leaves).collect();
        let by_itself = self.endpoints().filter(|&to| leaves(to).next().is_none());
        destinations.extend(by_itself);
        destinations
    }

    /// Returns the largest number of rails that the training NICs of one host have.
    pub fn rail_count(&self) -> u16 {
        self.nics.rail_count
    }

    /// Whether the file declares NICs. Otherwise all NICs are implied by cables.
    pub fn has_declared_nics(&self) -> bool {
        self.nics.has_declared
    }

    /// Whether a NIC of another node has this address.
    pub(super) fn is_of_foreign_nic(&self, node: NodeId, address: Ipv4Addr) -> bool {
        let nic = self.nic_with(address).map(|id| self.nic(id));
        nic.is_some_and(|nic| nic.host != node)
    }

    /// Lists the NICs of each host, once their rails are known.
    pub(super) fn sort_nics(&mut self) {
        let mut of_host = vec![Vec::new(); self.nodes.len()];
        for (id, nic) in self.nics() {
            of_host[nic.host.index()].push(id);
        }
        for ids in &mut of_host {
            ids.sort_by_key(|&id| {
                let nic = self.nic(id);
                (nic.purpose, nic.rail)
            });
        }
        let rail_counts = of_host.iter().map(|ids| self.training_rails(ids).len());
        let rail_count = rail_counts.max().unwrap_or(0);
        self.nics.rail_count = u16::try_from(rail_count).unwrap_or(u16::MAX);
        self.nics.of_host = of_host;
    }

    fn training_rails(&self, ids: &[NicId]) -> BTreeSet<u16> {
        let nics = ids.iter().map(|&id| self.nic(id));
        let training = nics.filter(|nic| nic.purpose == NicUse::Training);
        training.map(|nic| nic.rail).collect()
    }
}

/// What is known of NICs while a fabric is built.
#[derive(Debug, Default)]
pub(super) struct DeclaredNics {
    /// NICs without a declared rail, in the order of their links.
    unnumbered: Vec<NicId>,
    /// Rails that are taken, by host, use, number and plane.
    rails: BTreeSet<(NodeId, NicUse, u16, Option<u16>)>,
    interfaces: BTreeSet<(NodeId, String)>,
    /// Nodes that a declared NIC joins.
    joined: BTreeSet<[NodeId; 2]>,
}

impl DeclaredNics {
    /// Whether the host has a NIC with this rail in the same plane. A NIC without a plane is in every plane.
    fn has_rail(&self, host: NodeId, purpose: NicUse, rail: u16, plane: Option<u16>) -> bool {
        let is_in = |plane| self.rails.contains(&(host, purpose, rail, plane));
        if plane.is_some() {
            return is_in(plane) || is_in(None);
        }
        let [first, last] = [None, Some(u16::MAX)].map(|plane| (host, purpose, rail, plane));
        self.rails.range(first..=last).next().is_some()
    }
}

impl FabricBuilder {
    /// Adds a NIC to `host`, and its cable to the switch `to`. Two NICs of a host at one switch are parallel links.
    pub fn add_nic(
        &mut self,
        host: NodeId,
        to: NodeId,
        rate: Rate,
        latency: Duration,
        spec: NicSpec,
    ) -> Result<NicId, WiringError> {
        self.nic_joins(host, to)?;
        self.nic_differs(host, &spec)?;
        let interface = spec.interface.clone();
        self.declared_nics
            .interfaces
            .extend(interface.map(|interface| (host, interface)));
        self.declared_nics
            .joined
            .insert([host.min(to), host.max(to)]);
        self.fabric.nics.has_declared = true;
        let link = self.add_link([host, to], rate, latency);
        Ok(self.push_nic(host, link, spec))
    }

    /// Makes a cable a NIC of each host that it ends at.
    pub(super) fn add_implied_nics(&mut self, ends: [NodeId; 2], link: LinkId) {
        for node in ends {
            if self.fabric.node(node).role == Role::Host {
                self.push_nic(node, link, NicSpec::default());
            }
        }
    }

    /// Refuses a link beside a NIC of the same two nodes.
    pub(super) fn joins_no_nic(&self, [a, b]: [NodeId; 2]) -> Result<(), WiringError> {
        if self.declared_nics.joined.contains(&[a.min(b), a.max(b)]) {
            return Err(self.linked_without_nic(a, b));
        }
        Ok(())
    }

    /// Gives each NIC without a declared rail the lowest that no other NIC of its host, use and plane has. What it gets
    /// counts for those after it, in whichever plane they are.
    pub(super) fn number_rails(&mut self) {
        let mut next: BTreeMap<_, u16> = BTreeMap::new();
        for id in mem::take(&mut self.declared_nics.unnumbered) {
            let nic = &mut self.fabric.nics.all[id.index()];
            let (host, purpose, plane) = (nic.host, nic.purpose, nic.plane);
            let rail = next.entry((host, purpose, plane)).or_default();
            while *rail < u16::MAX && self.declared_nics.has_rail(host, purpose, *rail, plane) {
                *rail += 1;
            }
            nic.rail = *rail;
            self.declared_nics
                .rails
                .insert((host, purpose, *rail, plane));
            *rail = rail.saturating_add(1);
        }
    }

    fn push_nic(&mut self, host: NodeId, link: LinkId, spec: NicSpec) -> NicId {
        let nic = Nic {
            host,
            link,
            interface: spec.interface,
            address: spec.address,
            rail: spec.rail.unwrap_or_default(),
            plane: spec.plane,
            purpose: spec.purpose,
            numa: spec.numa,
            gpu: spec.gpu,
        };
        let (purpose, plane) = (nic.purpose, nic.plane);
        let id = self.fabric.nics.push(nic);
        match spec.rail {
            Some(rail) => self
                .declared_nics
                .rails
                .extend([(host, purpose, rail, plane)]),
            None => self.declared_nics.unnumbered.push(id),
        }
        id
    }

    /// Checks the two ends of a new NIC's cable.
    fn nic_joins(&self, host: NodeId, to: NodeId) -> Result<(), WiringError> {
        let name = |node| self.fabric.name(node).to_owned();
        if self.fabric.node(host).role != Role::Host {
            return Err(WiringError::NoHost { name: name(host) });
        }
        if self.fabric.node(to).role != Role::Switch {
            return Err(WiringError::NoSwitch { name: name(to) });
        }
        if self.joined.contains(&[host.min(to), host.max(to)]) {
            return Err(self.linked_without_nic(host, to));
        }
        Ok(())
    }

    /// Checks that no other NIC has the interface, address or rail of a new one.
    fn nic_differs(&self, host: NodeId, spec: &NicSpec) -> Result<(), WiringError> {
        let name = || self.fabric.name(host).to_owned();
        let interface = spec.interface.clone().map(|interface| (host, interface));
        if let Some((_, interface)) =
            interface.filter(|it| self.declared_nics.interfaces.contains(it))
        {
            return Err(WiringError::DuplicateInterface {
                host: name(),
                interface,
            });
        }
        if let Some(address) = spec.address {
            if self.fabric.nic_with(address).is_some() {
                return Err(WiringError::DuplicateNicAddress { address });
            }
            if self.fabric.is_of_other_node(host, address) {
                return Err(WiringError::DuplicateAddress { address });
            }
        }
        let (purpose, plane) = (spec.purpose, spec.plane);
        let rail = spec.rail.filter(|_| purpose == NicUse::Training);
        let has_rail = |&rail: &u16| self.declared_nics.has_rail(host, purpose, rail, plane);
        match rail.filter(has_rail) {
            None => Ok(()),
            Some(rail) => Err(WiringError::DuplicateRail {
                host: name(),
                rail,
                plane,
            }),
        }
    }

    fn linked_without_nic(&self, a: NodeId, b: NodeId) -> WiringError {
        let is_host = self.fabric.node(a).role == Role::Host;
        let [host, to] = if is_host { [a, b] } else { [b, a] };
        WiringError::LinkedWithoutNic {
            host: self.fabric.name(host).to_owned(),
            to: self.fabric.name(to).to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::Document;

    /// A text, its nodes, links, NICs and rails, and the name of its last link.
    type OldFile = (&'static str, [usize; 4], &'static str);

    /// All that describe a fabric and were written before NICs could be declared.
    #[rustfmt::skip]
    const OLD_FILES: [OldFile; 12] = [
        (include_str!("../../../tests/lab/scenarios/two-leaves.toml"), [12, 12, 8, 1], "leaf1-spine1"),
        (include_str!("../../../tests/lab/scenarios/collision.toml"), [12, 12, 8, 1], "leaf1-spine1"),
        (include_str!("../../../tests/lab/scenarios/leaf-spine.toml"), [8, 8, 4, 1], "leaf1-spine1"),
        (include_str!("../../../tests/lab/scenarios/ideal.toml"), [5, 4, 4, 1], "h3-switch"),
        (include_str!("../../../tests/lab/scenarios/graph.toml"), [6, 8, 4, 2], "relay-tail.1"),
        (include_str!("../../../tests/lab/scenarios/direct.toml"), [6, 12, 0, 0], "h5-h1"),
        (include_str!("../../../tests/lab/scenarios/patterns.toml"), [8, 16, 0, 0], "h7-h2"),
        (include_str!("../../../tests/lab/scenarios/optical.toml"), [4, 24, 0, 0], "h2-h3.3"),
        (include_str!("../../../tests/demo/clusters/racks.toml"), [14, 16, 8, 1], "leaf3-spine1"),
        (include_str!("../../../tests/demo/clusters/ring.toml"), [6, 135, 0, 0], "h4-h5.8"),
        (include_str!("../../../tests/circuits/thirds.toml"), [4, 54, 0, 0], "h3-h0.8"),
        (include_str!("../../../tests/rewiring/model/two.toml"), [2, 9, 0, 0], "h0-h1.8"),
    ];

    /// Reads a fabric file, or the fabric in a scenario file.
    fn fabric(text: &str) -> Fabric {
        let mut table = Document::new("f.toml", text).table().unwrap();
        let inner = table.take_table("fabric").unwrap();
        Fabric::from_table(inner.unwrap_or(table)).unwrap()
    }

    #[test]
    fn old_files_read_as_before() {
        for (text, counts, last) in OLD_FILES {
            let fabric = fabric(text);
            let (nodes, links) = (fabric.nodes().len(), fabric.links().len());
            let rails = usize::from(fabric.rail_count());
            assert_eq!([nodes, links, fabric.nics().len(), rails], counts, "{text}");
            let (id, _) = fabric.links().last().unwrap();
            assert_eq!(fabric.link_name(id), last);
            assert!(!fabric.has_declared_nics());
            for (node, it) in fabric.nodes() {
                let nics = fabric.nics_of(node).iter().map(|&id| fabric.nic(id));
                let found: Vec<_> = nics.map(|nic| (nic.link, nic.rail, nic.purpose)).collect();
                let cables = fabric
                    .links_of(node)
                    .iter()
                    .filter(|_| it.role == Role::Host);
                let implied = cables
                    .zip(0_u16..)
                    .map(|(&link, rail)| (link, rail, NicUse::Training));
                assert_eq!(found, implied.collect::<Vec<_>>(), "{}", it.name);
            }
        }
    }

    /// A host with a NIC at each of two leaves.
    fn two_rails() -> (FabricBuilder, [NodeId; 4]) {
        let mut builder = FabricBuilder::new();
        let names = [("h0", Role::Host), ("h1", Role::Host)];
        let leaves = [("leaf0", Role::Switch), ("leaf1", Role::Switch)];
        let add = |(name, role)| builder.add_node(name, role).unwrap();
        let nodes = [names[0], names[1], leaves[0], leaves[1]].map(add);
        for (rail, &leaf) in nodes[2..].iter().enumerate() {
            let spec = NicSpec {
                rail: Some(rail as u16),
                address: Some(Ipv4Addr::new(10, rail as u8, 0, 1)),
                ..NicSpec::default()
            };
            let rate = Rate::from_bits_per_s(1_000_000);
            let added = builder.add_nic(nodes[0], leaf, rate, Duration::ZERO, spec);
            added.unwrap();
        }
        (builder, nodes)
    }

    #[test]
    fn remaining_nics_keep_their_rails() {
        let (builder, [h0, _, _, leaf1]) = two_rails();
        let fabric = builder.build();
        let less = fabric.less(&[LinkId::from_index(0)].into());
        let nics: Vec<_> = less.nics().collect();
        assert_eq!(nics.len(), 1);
        let (id, nic) = nics[0];
        let link = LinkId::from_index(0);
        assert_eq!((nic.host, nic.link, nic.rail), (h0, link, 1));
        assert_eq!(less.nics_of(h0), [id]);
        assert_eq!(less.nic_at(link), Some(id));
        assert_eq!(less.nic_with(Ipv4Addr::new(10, 1, 0, 1)), Some(id));
        assert_eq!(less.nic_with(Ipv4Addr::new(10, 0, 0, 1)), None);
        assert_eq!(less.leaf_of(id), Some(leaf1));
        assert!(less.has_declared_nics());
        assert_eq!(fabric.less(&BTreeSet::new()), fabric);
    }

    #[test]
    fn leaves_stand_for_their_nics() {
        let (builder, [h0, h1, leaf0, leaf1]) = two_rails();
        let fabric = builder.build();
        // The second host has no NIC.
        assert_eq!(fabric.leaf_destinations(), [h1, leaf0, leaf1].into());
        for (leaf, rail) in [(leaf0, 0), (leaf1, 1)] {
            let behind = fabric.nics_behind(leaf).map(|nic| (nic.host, nic.rail));
            assert_eq!(behind.collect::<Vec<_>>(), [(h0, rail)]);
        }
        assert_eq!(fabric.nics_behind(h0).count(), 0);
    }

    #[test]
    fn undeclared_rail_is_lowest_free() {
        let (mut builder, [h0, h1, leaf0, leaf1]) = two_rails();
        let rate = Rate::from_bits_per_s(1_000_000);
        let mut add = |host, to, spec| builder.add_nic(host, to, rate, Duration::ZERO, spec);
        let third = add(h0, leaf0, NicSpec::default()).unwrap();
        let storage = NicSpec {
            purpose: NicUse::Storage,
            ..NicSpec::default()
        };
        let storage = add(h0, leaf0, storage).unwrap();
        let of_plane = |plane| NicSpec {
            plane: Some(plane),
            ..NicSpec::default()
        };
        let planes = [0, 1, 0].map(|plane| add(h1, leaf1, of_plane(plane)).unwrap());
        let fabric = builder.build();
        let rail = |id| fabric.nic(id).rail;
        assert_eq!([third, storage].map(rail), [2, 0]);
        assert_eq!(planes.map(rail), [0, 0, 1]);
        let of_h0 = fabric.nics_of(h0).iter().map(|&id| id.index());
        assert_eq!(of_h0.collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!(fabric.rail_count(), 3);
    }

    /// What is in every plane takes its rail in each of them.
    #[test]
    fn undeclared_rails_differ_across_planes() {
        let (mut builder, [_, h1, leaf0, _]) = two_rails();
        let rate = Rate::from_bits_per_s(1_000_000);
        let mut add = |plane| {
            let spec = NicSpec {
                plane,
                ..NicSpec::default()
            };
            builder.add_nic(h1, leaf0, rate, Duration::ZERO, spec)
        };
        let nics = [None, Some(0), Some(1), None].map(|plane| add(plane).unwrap());
        let fabric = builder.build();
        assert_eq!(nics.map(|id| fabric.nic(id).rail), [0, 1, 1, 2]);
    }

    #[test]
    fn link_beside_nic_is_refused() {
        let (mut builder, [h0, h1, leaf0, _]) = two_rails();
        let rate = Rate::from_bits_per_s(1_000_000);
        let error = builder.connect([leaf0, h0], 1, rate, Duration::ZERO);
        let expected = "h0 and leaf0 are linked by a [[link]] already; write the NIC alone";
        assert_eq!(error.unwrap_err().to_string(), expected);
        let taken = builder.set_address(h1, Ipv4Addr::new(10, 1, 0, 1));
        assert!(taken.is_err());
        builder.set_address(h0, Ipv4Addr::new(10, 1, 0, 1)).unwrap();
    }
}
