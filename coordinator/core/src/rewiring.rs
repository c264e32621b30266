//! Circuits that a person wants: the plan that has them, with routes that suit them.

use std::collections::BTreeSet;

use reweave_common::course::Tables;
use reweave_common::fabric::{Circuits, Fabric};
use reweave_common::ids::LinkId;
use reweave_common::plan::Plan;
use reweave_planner::routing::Ground;

use crate::model::Picture;
use crate::state::State;

/// Optical switches that are not named stay as they are. It promises nothing: whoever wants it knows
/// what for.
pub(crate) fn plan(picture: &Picture<'_>, state: &State, wanted: &Circuits) -> Plan {
    let (fabric, in_force) = (picture.fabric(), state.in_force());
    let mut circuits = in_force.circuits_of(fabric);
    circuits.extend(wanted.clone());
    let mut closed = fabric.dark(&circuits);
    closed.extend(picture.down());
    Plan {
        pins: in_force.pins.clone(),
        tables: tables(fabric, &closed),
        circuits,
        ..Plan::empty(state.next_generation(), in_force.generation)
    }
}

/// Of nodes with fibres: whoever has none is not asked to know where circuits lead.
fn tables(fabric: &Fabric, closed: &BTreeSet<LinkId>) -> Tables {
    let ground = Ground { fabric, closed };
    let nodes: BTreeSet<_> = fabric.fibres().map(|fibre| fibre.node).collect();
    ground.tables(&ground.shortest(), None, nodes)
}
