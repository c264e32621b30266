//! All fibre interfaces must have one hardware address. Otherwise a sender that resolved an address before a circuit
//! moved would send to no one afterwards.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::fabric::{Circuits, Fibre};
use reweave_common::hardware::Mac;
use reweave_common::ids::NodeId;

use crate::model::world::World;

/// At most this many fibres with one address are named.
const MAX_NAMED_FIBRES: usize = 2;

/// The hardware address, if the node reports it.
fn mac(world: &World<'_>, fibre: &Fibre) -> Option<Mac> {
    let observed = world.known.ingest.observations().node(fibre.node)?;
    Some(observed.host.hardware.get(&fibre.interface)?.value)
}

/// The addresses of all fibres of a node.
pub(crate) fn borne(world: &World<'_>, node: NodeId) -> BTreeSet<Mac> {
    let fibres = world.fabric().fibres().filter(|it| it.node == node);
    fibres.filter_map(|fibre| mac(world, fibre)).collect()
}

/// Why the circuits of these switches cannot be moved because of hardware addresses, if so.
pub(crate) fn unlike(world: &World<'_>, moved: &Circuits) -> Option<String> {
    let mut bearers: BTreeMap<Mac, Vec<&Fibre>> = BTreeMap::new();
    let fibres = world.fabric().fibres();
    for fibre in fibres.filter(|it| moved.contains_key(&it.optical)) {
        if let Some(mac) = mac(world, fibre) {
            bearers.entry(mac).or_default().push(fibre);
        }
    }
    let reports = bearers.iter().map(|(mac, fibres)| {
        let names = fibres.iter().take(MAX_NAMED_FIBRES).map(|fibre| {
            let node = world.fabric().name(fibre.node);
            format!("{} of {node}", fibre.interface)
        });
        let names: Vec<_> = names.collect();
        match fibres.len().saturating_sub(MAX_NAMED_FIBRES) {
            0 => format!("{mac} at {}", names.join(", ")),
            more => format!("{mac} at {} and {more} more", names.join(", ")),
        }
    });
    let reports: Vec<_> = reports.collect();
    (reports.len() > 1).then(|| {
        let reports = reports.join("; ");
        format!(
            "fibre interfaces have several hardware addresses, so packets are dropped after \
             circuits move: {reports}; `reweave-agent run --fibres` sets one address"
        )
    })
}
