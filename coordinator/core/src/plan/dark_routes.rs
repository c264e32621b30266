//! Routes in force that lead over a circuit that is gone: an optical switch has lost it, or an operator has changed it on
//! the device. A node leaves a dark link out at its own end, and no other node leads around it.

use std::collections::BTreeSet;

use reweave_common::fabric::Fabric;
use reweave_common::finding::Finding;
use reweave_common::ids::LinkId;
use reweave_common::plan::Plan;

use crate::log::state::{InForce, State};
use crate::model::circuit_drift;
use crate::model::world::World;
use crate::plan::rewire;

/// The links without a circuit over which routes in force lead.
pub(crate) fn led_over(fabric: &Fabric, in_force: &InForce) -> BTreeSet<LinkId> {
    if fabric.fibres().len() == 0 {
        return BTreeSet::new();
    }
    let dark = fabric.dark(&in_force.circuits_of(fabric));
    let towards = in_force.tables.values().flat_map(|it| it.towards.values());
    let links = towards.flatten().map(|hop| hop.link);
    links.filter(|link| dark.contains(link)).collect()
}

/// Routes of nodes with fibres over the links that are left. None if no route leads over a dark link, or if a node
/// would have no path to where its routes lead.
pub(crate) fn plan(world: &World<'_>, state: &State) -> Option<Plan> {
    let (fabric, in_force) = (world.fabric(), state.in_force());
    if led_over(fabric, in_force).is_empty() {
        return None;
    }
    let mut tables = in_force.tables.clone();
    tables.extend(rewire::tables_now(world, state)?);
    let mut plan = Plan {
        tables,
        ..state.as_it_is()
    };
    let drifts = circuit_drift::drifts(fabric, state);
    let causes = drifts.iter().flat_map(circuit_drift::CircuitDrift::causes);
    plan.report.findings = causes.map(Finding::Cause).collect();
    Some(plan)
}
