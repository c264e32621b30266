//! Circuits by themselves: could an optical switch hold them, and what is left while they move?

use std::collections::BTreeSet;

use reweave_common::circuit::{Circuit, CircuitSet, PortId};
use reweave_common::fabric::{Circuits, Fabric};
use reweave_common::ids::{LinkId, OpticalId};
use reweave_common::units::Rate;

use crate::{Network, Unsound};

/// What is wrong with these circuits, independent of the ones before.
pub(crate) fn faults(fabric: &Fabric, circuits: &Circuits) -> Vec<Unsound> {
    let of_switch = |(&optical, set): (&OpticalId, &CircuitSet)| {
        if optical.index() >= fabric.opticals().len() {
            let number = optical.index();
            return vec![Unsound::NoSuchOptical { number }];
        }
        let twice = twice(set).map(|port| Unsound::PortTwice {
            optical: fabric.optical(optical).name.clone(),
            port,
        });
        twice
            .into_iter()
            .chain(unplugged(fabric, optical, set))
            .collect()
    };
    circuits.iter().flat_map(of_switch).collect()
}

/// A port that is in two circuits, or at both ends of one.
fn twice(set: &CircuitSet) -> Option<PortId> {
    let mut seen = BTreeSet::new();
    let mut ports = set.iter().flat_map(Circuit::ports);
    ports.find(|&port| !seen.insert(port))
}

/// Circuits that join what is not there, or a node to itself.
fn unplugged(fabric: &Fabric, optical: OpticalId, set: &CircuitSet) -> Vec<Unsound> {
    let joins_two = |ports: [PortId; 2]| {
        let [a, b] = ports.map(|port| fabric.fibre(optical, port).map(|fibre| fibre.node));
        a.zip(b).is_some_and(|(a, b)| a != b)
    };
    let bad = set.iter().filter(|circuit| !joins_two(circuit.ports()));
    let reports = bad.map(|circuit| Unsound::JoinsNothing {
        optical: fabric.optical(optical).name.clone(),
        circuit,
    });
    reports.collect()
}

/// Nodes that keep too little while these links are dark: of what they have when all is well, or of what they
/// have now where that is more. Were it of now alone, one wave after the other could take its share.
pub(crate) fn too_narrow(network: &Network<'_>, dark: &BTreeSet<LinkId>) -> Vec<Unsound> {
    let fabric = network.fabric;
    let is_up = |link: LinkId| !network.down.contains(&link);
    let well = rates(fabric, fabric.first_circuits(), |_| true);
    let open = rates(fabric, network.circuits, is_up);
    let left = rates(fabric, network.circuits, |link| {
        is_up(link) && !dark.contains(&link)
    });
    let narrow = fabric.nodes().filter_map(|(node, _)| {
        let [now, left, well] = [&open, &left, &well].map(|rates| rates[node.index()]);
        let whole = now.max(well);
        let least = (whole as f64 * network.floor) as u64;
        let [left_rate, least_rate] = [left, least].map(Rate::from_bits_per_s);
        (left < now && left < least).then(|| Unsound::TooNarrow {
            node: fabric.name(node).to_owned(),
            left: left_rate,
            least: least_rate,
        })
    });
    narrow.collect()
}

/// What the links of each node carry together: cables, and what these circuits light. Of fibres every pair is a link, so
/// that to ask each of them takes long where there are hundreds.
fn rates(fabric: &Fabric, circuits: &Circuits, is_there: impl Fn(LinkId) -> bool) -> Vec<u64> {
    let mut rates = vec![0; fabric.nodes().len()];
    let lit = fabric.lit(circuits).into_iter();
    for link in lit.filter(|link| is_there(*link)) {
        let link = fabric.link(link);
        for port in link.ports() {
            rates[port.node.index()] += link.rate.bits_per_s();
        }
    }
    rates
}
