//! Fibres that end at optical switches, and the links that circuits make of them.
//!
//! Every pair of fibres that a circuit could join is a link of the fabric, so that links keep their numbers whichever
//! circuits are switched. Those without a circuit are dark.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use super::{Fabric, FabricBuilder, WiringError};
use crate::circuit::{Circuit, CircuitSet, PortId};
use crate::ids::{LinkId, NodeId, OpticalId};
use crate::names::{self, MAX_NAME_BYTES};
use crate::units::{Loss, Rate};

/// The circuits of every optical switch.
pub type Circuits = BTreeMap<OpticalId, CircuitSet>;

/// An optical switch with ports 1 to `ports`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpticalSwitch {
    pub name: String,
    pub ports: u16,
    /// Loss between any two ports.
    pub loss: Loss,
    /// Maximum loss from one end of a circuit to the other; unlimited if the file has none.
    pub budget: Option<Loss>,
}

/// A fibre from an interface of a node to a port of an optical switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fibre {
    pub node: NodeId,
    pub interface: String,
    pub optical: OpticalId,
    pub port: PortId,
    pub rate: Rate,
    pub latency: Duration,
    /// Loss of the fibre, in addition to that of the switch.
    pub loss: Loss,
}

/// The circuit that lights a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Crossing {
    pub optical: OpticalId,
    pub circuit: Circuit,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Optics {
    switches: Vec<OpticalSwitch>,
    fibres: BTreeMap<(OpticalId, PortId), Fibre>,
    /// Circuit of each link that is no cable. Every pair of fibres is a link, and lookups are frequent.
    crossings: Vec<Option<Crossing>>,
    links: BTreeMap<Crossing, LinkId>,
    circuits: Circuits,
    addresses: BTreeMap<NodeId, Ipv4Addr>,
}

impl Optics {
    /// Returns only the addresses, for a fabric without optical switches.
    pub(super) fn addresses_alone(&self) -> Self {
        Self {
            addresses: self.addresses.clone(),
            ..Self::default()
        }
    }
}

impl Fabric {
    pub fn opticals(&self) -> impl ExactSizeIterator<Item = (OpticalId, &OpticalSwitch)> {
        let switches = self.optics.switches.iter().enumerate();
        switches.map(|(index, switch)| (OpticalId::from_index(index), switch))
    }

    pub fn find_optical(&self, name: &str) -> Option<OpticalId> {
        let mut switches = self.opticals();
        switches.find(|(_, it)| it.name == name).map(|(id, _)| id)
    }

    pub fn optical(&self, id: OpticalId) -> &OpticalSwitch {
        &self.optics.switches[id.index()]
    }

    pub fn fibres(&self) -> impl ExactSizeIterator<Item = &Fibre> {
        self.optics.fibres.values()
    }

    /// Returns the fibre at this port.
    pub fn fibre(&self, optical: OpticalId, port: PortId) -> Option<&Fibre> {
        self.optics.fibres.get(&(optical, port))
    }

    /// Returns the fibre at this end of a link.
    pub fn fibre_of(&self, node: NodeId, link: LinkId) -> Option<&Fibre> {
        let Crossing { optical, circuit } = self.crossing(link)?;
        let ends = circuit.ports().map(|port| self.fibre(optical, port));
        ends.into_iter().flatten().find(|fibre| fibre.node == node)
    }

    /// Returns the circuit of a link; none for a cable.
    pub fn crossing(&self, link: LinkId) -> Option<Crossing> {
        self.optics.crossings.get(link.index()).copied().flatten()
    }

    /// Returns the circuits in the fabric's file, for every optical switch.
    pub fn first_circuits(&self) -> &Circuits {
        &self.optics.circuits
    }

    /// Returns the links that are dark with these circuits.
    pub fn dark(&self, circuits: &Circuits) -> BTreeSet<LinkId> {
        let is_set = |crossing: &Crossing| {
            let set = circuits.get(&crossing.optical);
            set.is_some_and(|set| set.contains(crossing.circuit))
        };
        let crossings = self.optics.crossings.iter().enumerate();
        let is_dark = |it: &Option<Crossing>| it.as_ref().is_some_and(|it| !is_set(it));
        let dark = crossings.filter(|(_, crossing)| is_dark(crossing));
        dark.map(|(link, _)| LinkId::from_index(link)).collect()
    }

    /// Returns all other links in the order of their numbers: cables, and lit links.
    pub fn lit(&self, circuits: &Circuits) -> Vec<LinkId> {
        let cables = self.links().map(|(link, _)| link);
        let cables = cables.filter(|&link| self.crossing(link).is_none());
        let set = circuits.iter().flat_map(|(&optical, set)| {
            let crossing = move |circuit| Crossing { optical, circuit };
            set.iter().map(crossing)
        });
        let fibres = set.filter_map(|crossing| self.optics.links.get(&crossing).copied());
        let mut lit: Vec<_> = cables.chain(fibres).collect();
        lit.sort_unstable();
        lit
    }

    /// Returns the stable address of a node, which belongs to none of its links.
    pub fn address(&self, node: NodeId) -> Option<Ipv4Addr> {
        self.optics.addresses.get(&node).copied()
    }

    /// Whether this is the stable address of another node.
    pub(super) fn is_of_other_node(&self, node: NodeId, address: Ipv4Addr) -> bool {
        let mut addresses = self.optics.addresses.iter();
        addresses.any(|(&other, &theirs)| other != node && theirs == address)
    }
}

impl FabricBuilder {
    pub fn add_optical(&mut self, name: &str, ports: u16) -> Result<OpticalId, WiringError> {
        let name = name.to_owned();
        if !names::is_plain(&name, MAX_NAME_BYTES) {
            return Err(WiringError::BadName { name });
        }
        let switches = &mut self.fabric.optics.switches;
        let is_taken = switches.iter().any(|other| other.name == name);
        if is_taken || self.fabric.by_name.contains_key(&name) {
            return Err(WiringError::DuplicateNode { name });
        }
        let id = OpticalId::from_index(switches.len());
        switches.push(OpticalSwitch {
            name,
            ports,
            loss: Loss::default(),
            budget: None,
        });
        let circuits = &mut self.fabric.optics.circuits;
        circuits.insert(id, CircuitSet::default());
        Ok(id)
    }

    /// Sets the loss of an optical switch, and the maximum loss of a circuit through it.
    pub fn set_loss(&mut self, optical: OpticalId, loss: Loss, budget: Option<Loss>) {
        let switch = &mut self.fabric.optics.switches[optical.index()];
        (switch.loss, switch.budget) = (loss, budget);
    }

    pub fn find_optical(&self, name: &str) -> Option<OpticalId> {
        self.fabric.find_optical(name)
    }

    /// Adds a fibre, and a dark link with every fibre of another node at the same switch.
    pub fn add_fibre(&mut self, fibre: Fibre) -> Result<(), WiringError> {
        let (optical, port) = (fibre.optical, fibre.port);
        self.port_exists(optical, port)?;
        if self.fabric.fibre(optical, port).is_some() {
            return Err(self.taken(optical, port));
        }
        let of_switch = (optical, PortId(0))..=(optical, PortId(u16::MAX));
        let others = self.fabric.optics.fibres.range(of_switch);
        let others: Vec<_> = others.map(|(_, other)| other.clone()).collect();
        for other in others.iter().filter(|other| other.node != fibre.node) {
            let link = LinkId::from_index(self.fabric.links.len());
            let rate = other.rate.min(fibre.rate);
            self.add_link(
                [other.node, fibre.node],
                rate,
                other.latency + fibre.latency,
            );
            let circuit = Circuit::new(other.port, port);
            let crossing = Crossing { optical, circuit };
            let crossings = &mut self.fabric.optics.crossings;
            crossings.resize(link.index(), None);
            crossings.push(Some(crossing));
            self.fabric.optics.links.insert(crossing, link);
        }
        self.fabric.optics.fibres.insert((optical, port), fibre);
        Ok(())
    }

    /// Adds a circuit of the initial state.
    pub fn set_circuit(&mut self, optical: OpticalId, circuit: Circuit) -> Result<(), WiringError> {
        let [a, b] = circuit.ports();
        let set = self.fabric.optics.circuits[&optical].clone();
        let mut used = set.iter().flat_map(Circuit::ports);
        if let Some(port) = used.find(|port| [a, b].contains(port)) {
            return Err(self.taken(optical, port));
        }
        if a == b {
            return Err(self.taken(optical, a));
        }
        self.port_exists(optical, a)?;
        self.port_exists(optical, b)?;
        let set = set.iter().chain([circuit]).collect();
        self.fabric.optics.circuits.insert(optical, set);
        Ok(())
    }

    pub fn set_address(&mut self, node: NodeId, address: Ipv4Addr) -> Result<(), WiringError> {
        let addresses = &self.fabric.optics.addresses;
        let is_taken = addresses.values().any(|&other| other == address);
        if is_taken || self.fabric.is_of_foreign_nic(node, address) {
            return Err(WiringError::DuplicateAddress { address });
        }
        self.fabric.optics.addresses.insert(node, address);
        Ok(())
    }

    fn port_exists(&self, optical: OpticalId, port: PortId) -> Result<(), WiringError> {
        let OpticalSwitch { name, ports, .. } = self.fabric.optical(optical);
        let exists = (1..=*ports).contains(&port.0);
        exists.then_some(()).ok_or_else(|| WiringError::NoSuchPort {
            optical: name.clone(),
            port,
            ports: *ports,
        })
    }

    fn taken(&self, optical: OpticalId, port: PortId) -> WiringError {
        WiringError::PortTaken {
            optical: self.fabric.optical(optical).name.clone(),
            port,
        }
    }
}
