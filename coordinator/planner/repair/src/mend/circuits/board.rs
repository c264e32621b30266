//! The ports of optical switches, what is joined there, and the lanes that packets have by that.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::circuit::{Circuit, CircuitSet, PortId};
use reweave_common::fabric::{Circuits, Fabric};
use reweave_common::ids::{LinkId, NodeId, OpticalId};
use reweave_common::snapshot::Hop;
use reweave_common::units::Rate;

/// End of a node's fibre at an optical switch.
#[derive(Debug, Clone, Copy)]
pub(in crate::mend) struct Plug {
    pub(in crate::mend) optical: OpticalId,
    port: PortId,
    pub(in crate::mend) node: NodeId,
    rate: f64,
}

/// One direction of a link.
#[derive(Debug, Clone, Copy)]
pub(in crate::mend) struct Lane {
    pub(in crate::mend) to: NodeId,
    pub(in crate::mend) rate: f64,
    /// Fibre at which it begins, if any.
    pub(in crate::mend) plug: Option<usize>,
    /// Cable of the lane, if it is one.
    cable: Option<LinkId>,
}

/// The fixed part of the fabric, and the fibres that can be joined differently.
pub(in crate::mend) struct Board<'f> {
    pub(in crate::mend) fabric: &'f Fabric,
    pub(in crate::mend) plugs: Vec<Plug>,
    cables: Vec<(NodeId, Lane)>,
    /// Circuits of which the fibres carry nothing, or should not.
    kept: Circuits,
    /// Links by the circuits that light them.
    links: BTreeMap<(OpticalId, Circuit), LinkId>,
}

/// Plug that each plug is joined to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::mend) struct Wiring(pub(in crate::mend) Vec<Option<usize>>);

/// Lanes that lead from each node.
pub(in crate::mend) type Lanes = Vec<Vec<Lane>>;

impl<'f> Board<'f> {
    /// Creates a board. Fibres of links without traffic stay joined.
    pub(in crate::mend) fn new(
        fabric: &'f Fabric,
        circuits: &Circuits,
        closed: &BTreeSet<LinkId>,
    ) -> (Self, Wiring) {
        let links: BTreeMap<_, _> = crossed(fabric).collect();
        let is_stuck = |circuit: &(OpticalId, Circuit)| {
            let link = links.get(circuit);
            link.is_some_and(|link| closed.contains(link))
        };
        let set = circuits.iter();
        let set = set.flat_map(|(&optical, set)| set.iter().map(move |it| (optical, it)));
        let (stuck, free): (Vec<_>, Vec<_>) = set.partition(is_stuck);
        let taken: BTreeSet<_> = stuck
            .iter()
            .flat_map(|&(optical, circuit)| ends(optical, circuit))
            .collect();
        let plugs = fabric.fibres().map(|fibre| Plug {
            optical: fibre.optical,
            port: fibre.port,
            node: fibre.node,
            rate: fibre.rate.bits_per_s() as f64,
        });
        let board = Self {
            fabric,
            plugs: plugs
                .filter(|plug| !taken.contains(&(plug.optical, plug.port)))
                .collect(),
            cables: cables(fabric, closed),
            kept: gathered(stuck),
            links,
        };
        let wiring = board.wiring(&free);
        (board, wiring)
    }

    fn wiring(&self, circuits: &[(OpticalId, Circuit)]) -> Wiring {
        let places = self.plugs.iter().enumerate();
        let places = places.map(|(place, plug)| ((plug.optical, plug.port), place));
        let places: BTreeMap<_, _> = places.collect();
        let mut mates = vec![None; self.plugs.len()];
        for &(optical, circuit) in circuits {
            let [a, b] = ends(optical, circuit).map(|port| places.get(&port).copied());
            if let (Some(a), Some(b)) = (a, b) {
                (mates[a], mates[b]) = (Some(b), Some(a));
            }
        }
        Wiring(mates)
    }

    /// Returns the resulting circuits; ports without a fibre get none.
    pub(in crate::mend) fn circuits(&self, wiring: &Wiring) -> Circuits {
        let joined = wiring.0.iter().enumerate();
        let joined = joined.filter_map(|(one, other)| {
            let [one, other] = [one, (*other)?].map(|place| self.plugs[place]);
            Some((one.optical, Circuit::new(one.port, other.port)))
        });
        let opticals = self.fabric.opticals().map(|(id, _)| id);
        let mut circuits: Circuits = opticals.map(|id| (id, CircuitSet::default())).collect();
        for (optical, set) in gathered(joined).into_iter().chain(self.kept.clone()) {
            let all = circuits.entry(optical).or_default();
            *all = all.iter().chain(set.iter()).collect();
        }
        circuits
    }

    pub(in crate::mend) fn lanes(&self, wiring: &Wiring) -> Lanes {
        let mut lanes = vec![Vec::new(); self.fabric.nodes().len()];
        for &(from, lane) in &self.cables {
            lanes[from.index()].push(lane);
        }
        for (place, mate) in wiring.0.iter().enumerate() {
            let Some(mate) = mate else { continue };
            let [plug, far] = [place, *mate].map(|place| self.plugs[place]);
            lanes[plug.node.index()].push(Lane {
                to: far.node,
                rate: plug.rate.min(far.rate),
                plug: Some(place),
                cable: None,
            });
        }
        lanes
    }

    /// The hop that a lane is.
    pub(in crate::mend) fn hop(&self, from: NodeId, lane: &Lane, wiring: &Wiring) -> Option<Hop> {
        let fibre = || {
            let one = lane.plug?;
            let [one, other] = [one, wiring.0[one]?].map(|place| self.plugs[place]);
            let circuit = (one.optical, Circuit::new(one.port, other.port));
            self.links.get(&circuit).copied()
        };
        let link = lane.cable.or_else(fibre)?;
        Some(Hop { from, link })
    }

    /// Joins two fibres, and the two that they were joined with, if the result connects nodes.
    pub(in crate::mend) fn joined(&self, wiring: &Wiring, [one, other]: [usize; 2]) -> Wiring {
        let mut mates = wiring.0.clone();
        let left = [one, other].map(|place| mates[place]);
        for place in left.into_iter().flatten() {
            mates[place] = None;
        }
        (mates[one], mates[other]) = (Some(other), Some(one));
        if let [Some(a), Some(b)] = left
            && self.may_meet(a, b)
        {
            (mates[a], mates[b]) = (Some(b), Some(a));
        }
        Wiring(mates)
    }

    pub(in crate::mend) fn may_meet(&self, one: usize, other: usize) -> bool {
        let [one, other] = [one, other].map(|place| self.plugs[place]);
        one.optical == other.optical && one.node != other.node
    }
}

impl Wiring {
    /// Returns the number of plugs that are joined differently.
    pub(in crate::mend) fn differs(&self, other: &Self) -> usize {
        let pairs = self.0.iter().zip(&other.0);
        pairs.filter(|(one, other)| one != other).count()
    }
}

fn ends(optical: OpticalId, circuit: Circuit) -> [(OpticalId, PortId); 2] {
    circuit.ports().map(|port| (optical, port))
}

fn gathered(circuits: impl IntoIterator<Item = (OpticalId, Circuit)>) -> Circuits {
    let mut sets: BTreeMap<OpticalId, Vec<Circuit>> = BTreeMap::new();
    for (optical, circuit) in circuits {
        sets.entry(optical).or_default().push(circuit);
    }
    let sets = sets.into_iter();
    sets.map(|(optical, set)| (optical, set.into_iter().collect()))
        .collect()
}

/// Links that circuits light, by these.
fn crossed(fabric: &Fabric) -> impl Iterator<Item = ((OpticalId, Circuit), LinkId)> + '_ {
    let links = fabric.links().map(|(link, _)| link);
    links.filter_map(|link| {
        let crossing = fabric.crossing(link)?;
        Some(((crossing.optical, crossing.circuit), link))
    })
}

/// Links that no circuit makes.
fn cables(fabric: &Fabric, closed: &BTreeSet<LinkId>) -> Vec<(NodeId, Lane)> {
    let links = fabric.links().map(|(link, _)| link);
    let links = links.filter(|link| fabric.crossing(*link).is_none() && !closed.contains(link));
    let both = links.flat_map(|id| {
        let link = fabric.link(id);
        link.ports().map(|port| {
            let lane = Lane {
                to: link.far(port.node).node,
                rate: Rate::bits_per_s(link.rate) as f64,
                plug: None,
                cable: Some(id),
            };
            (port.node, lane)
        })
    });
    both.collect()
}
