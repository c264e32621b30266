//! Which NIC of a host leads to which of its switches: a host with swapped cables has its rails in another order than
//! its peers.

use std::collections::BTreeMap;

use reweave_common::fabric::Role;
use reweave_common::ids::NodeId;
use reweave_common::snapshot::Hop;

use crate::model::world::World;

/// The order as a setting that hosts at the same switches should share; none if it is not completely known, or if
/// there is only one rail.
pub(super) fn order(world: &World<'_>, host: NodeId) -> Option<(String, String)> {
    let fabric = world.fabric();
    let mut interfaces = BTreeMap::new();
    for link in fabric.training_links(host) {
        let switch = fabric.link(link).far(host).node;
        let end = world.wiring.end(Hop { from: host, link })?;
        let is_new = interfaces.insert(fabric.name(switch), &end.interface[..]);
        let is_rail = fabric.node(switch).role == Role::Switch && is_new.is_none();
        is_rail.then_some(())?;
    }
    let mut sorted: Vec<_> = interfaces.values().copied().collect();
    sorted.sort_by_key(|name| (name.len(), *name));
    let place = |name: &str| sorted.iter().position(|it| *it == name);
    let nics = interfaces.values().filter_map(|name| place(name));
    let nics: Vec<_> = nics.map(|place| place.to_string()).collect();
    let switches: Vec<_> = interfaces.keys().copied().collect();
    (nics.len() > 1).then(|| {
        let setting = format!("order of NICs at {}", switches.join(", "));
        (setting, nics.join(", "))
    })
}
