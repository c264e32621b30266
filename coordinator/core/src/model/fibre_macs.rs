//! All interfaces at fibres must have one hardware address. Otherwise a sender that resolved an address before a
//! circuit moved sends to no one afterwards.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::fabric::{Circuits, Fibre};
use reweave_common::hardware::Mac;
use reweave_common::ids::NodeId;

use crate::model::world::World;

/// Of those who bear the same.
const MAX_NAMED_FIBRES: usize = 2;

/// As far as its node says.
fn mac(world: &World<'_>, fibre: &Fibre) -> Option<Mac> {
    let observed = world.known.ingest.observations().node(fibre.node)?;
    Some(observed.host.hardware.get(&fibre.interface)?.value)
}

/// All that the fibres of a node bear.
pub(crate) fn borne(world: &World<'_>, node: NodeId) -> BTreeSet<Mac> {
    let fibres = world.fabric().fibres().filter(|it| it.node == node);
    fibres.filter_map(|fibre| mac(world, fibre)).collect()
}

/// Why the circuits of these switches cannot be moved, if that is why.
pub(crate) fn unlike(world: &World<'_>, moved: &Circuits) -> Option<String> {
    let mut bearers: BTreeMap<Mac, Vec<&Fibre>> = BTreeMap::new();
    let fibres = world.fabric().fibres();
    for fibre in fibres.filter(|it| moved.contains_key(&it.optical)) {
        if let Some(mac) = mac(world, fibre) {
            bearers.entry(mac).or_default().push(fibre);
        }
    }
    let told = bearers.iter().map(|(mac, fibres)| {
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
    let told: Vec<_> = told.collect();
    (told.len() > 1).then(|| {
        let told = told.join("; ");
        format!(
            "fibre interfaces have several hardware addresses, so packets are dropped after \
             circuits move: {told}; `reweave-agent run --fibres` sets one address"
        )
    })
}
