//! NICs of hosts: each is a cable, with a rail, a use, and the interface and address that the file gives it.
//!
//! Every cable of a host is a NIC, so a file without NICs has them too: they are implied, for training, and numbered in
//! the order of their links. Fibres and the links of relays are no NICs.

use std::collections::{BTreeMap, BTreeSet};
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

impl Nic {
    fn series(&self) -> Series {
        (self.host, self.purpose, self.plane)
    }
}

/// NICs that are told apart by their rails: those of one host, use and plane.
type Series = (NodeId, NicUse, Option<u16>);

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
        of_host.map_or(&[], Vec::as_slice)
    }

    /// Returns the NIC that this link ends at. Of a link between two hosts, it is the NIC of its first end.
    pub fn nic_at(&self, link: LinkId) -> Option<NicId> {
        let nics = &self.nics.all;
        let index = nics.partition_point(|nic| nic.link < link);
        let nic = nics.get(index).filter(|nic| nic.link == link);
        nic.map(|_| NicId::from_index(index))
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
    rails: BTreeSet<(Series, u16)>,
    interfaces: BTreeSet<(NodeId, String)>,
    /// Nodes that a declared NIC joins.
    joined: BTreeSet<[NodeId; 2]>,
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

    /// Gives each NIC without a declared rail the lowest that no other NIC of its host, use and plane has.
    pub(super) fn number_rails(&mut self) {
        let mut next: BTreeMap<Series, u16> = BTreeMap::new();
        for &id in &self.declared_nics.unnumbered {
            let nic = &mut self.fabric.nics.all[id.index()];
            let series = nic.series();
            let rail = next.entry(series).or_default();
            while *rail < u16::MAX && self.declared_nics.rails.contains(&(series, *rail)) {
                *rail += 1;
            }
            nic.rail = *rail;
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
        let series = nic.series();
        let id = self.fabric.nics.push(nic);
        match spec.rail {
            Some(rail) => self.declared_nics.rails.extend([(series, rail)]),
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
        let series = (host, NicUse::Training, spec.plane);
        let rail = spec.rail.filter(|_| spec.purpose == NicUse::Training);
        match rail.filter(|&rail| self.declared_nics.rails.contains(&(series, rail))) {
            None => Ok(()),
            Some(rail) => Err(WiringError::DuplicateRail {
                host: name(),
                rail,
                plane: spec.plane,
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
