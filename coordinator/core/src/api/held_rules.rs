//! Nodes that hold other rules than instructed. A kernel drops the routes over an interface that is down: then the link
//! is the cause, and not the agent.

use reweave_common::circuit::CircuitSet;
use reweave_common::ids::NodeId;

use crate::log::state::State;
use crate::model::world::World;

/// What is wrong with the rules that a node reads back; none if they are those of its last instruction.
pub(super) fn alarm(world: &World<'_>, state: &State, node: NodeId) -> Option<String> {
    let known = world.known;
    let observed = known.ingest.observations().node(node);
    observed.filter(|it| known.is_fresh(node) && it.holds.is_some())?;
    let name = known.fabric.name(node);
    let Some(left_out) = known.left_out(node, &state.in_force().holding(node)) else {
        return Some(format!(
            "{name} holds rules that differ from its instruction; check its agent"
        ));
    };
    let places = left_out.iter().map(|interface| {
        let place = place(world, state, node, interface);
        format!("{interface} ({place})")
    });
    let places: Vec<_> = places.collect();
    (!places.is_empty()).then(|| {
        format!(
            "{name} leaves out pins and hops over interfaces that are down: {}",
            places.join(", ")
        )
    })
}

/// The link of an interface: its circuit, its port without one, or its cable.
fn place(world: &World<'_>, state: &State, node: NodeId, interface: &str) -> String {
    let fabric = world.fabric();
    let mut fibres = fabric.fibres();
    let fibre = fibres.find(|it| it.node == node && it.interface == interface);
    let Some(fibre) = fibre else {
        let cable = world.wiring.link_at(node, interface);
        let name = cable.map(|link| fabric.link_name(link));
        return name.unwrap_or_else(|| "its link is unknown".to_owned());
    };
    let (port, switch) = (fibre.port, &fabric.optical(fibre.optical).name);
    let circuits = state.in_force().circuits_of(fabric);
    let circuits = circuits.get(&fibre.optical);
    let mut circuits = circuits.into_iter().flat_map(CircuitSet::iter);
    match circuits.find(|circuit| circuit.ports().contains(&port)) {
        Some(circuit) => format!("circuit {circuit} of {switch}"),
        None => format!("port {port} of {switch} has no circuit"),
    }
}
