//! A plan for circuits that an operator names, or that suit the traffic, with routes over them.

use std::collections::BTreeSet;

use reweave_common::fabric::{Circuits, Fabric, Role};
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::migration_plan::Tables;
use reweave_common::plan::Plan;
use reweave_common::routes::Routes;
use reweave_design::routing::Ground;
use reweave_repair::Unsuited;

use crate::log::maintenance;
use crate::log::state::State;
use crate::model::jobs;
use crate::model::world::World;
use crate::plan::drain_routes::Partitioned;

/// Switches keep their routes, and what is under maintenance carries nothing by these either. Optical switches that are
/// not named stay as they are, and so do nodes that are not concerned.
fn plan(world: &World<'_>, state: &State, wanted: &Circuits) -> Plan {
    let (fabric, in_force) = (world.fabric(), state.in_force());
    let mut circuits = in_force.circuits_of(fabric);
    circuits.extend(wanted.clone());
    let shortest = |circuits: &Circuits| {
        let mut closed = fabric.dark(circuits);
        closed.extend(world.down());
        closed.extend(maintenance::closed(fabric, state));
        tables(fabric, &closed)
    };
    let of_switches = in_force.tables.iter();
    let of_switches = of_switches.filter(|(node, _)| fabric.node(**node).role == Role::Switch);
    let (before, mut tables) = (shortest(&in_force.circuits_of(fabric)), shortest(&circuits));
    let concerned = plugged_into(fabric, wanted);
    tables.retain(|node, table| {
        let is_as_ever = before.get(node) == Some(table) && !in_force.tables.contains_key(node);
        !is_as_ever || concerned.contains(node)
    });
    tables.extend(of_switches.map(|(node, table)| (*node, table.clone())));
    Plan {
        pins: in_force.pins.clone(),
        tables,
        circuits,
        ..Plan::empty(state.next_generation(), in_force.generation)
    }
}

/// A requested plan, with predictions for jobs with a known iteration period.
pub(crate) fn wanted(world: &World<'_>, state: &State, wanted: &Circuits) -> Plan {
    let plan = plan(world, state, wanted);
    let snapshot = jobs::snapshot(world, state.in_force());
    let policy = &world.known.policy.planner;
    Plan {
        iterations: reweave_repair::foretold(&snapshot, &plan.circuits, policy),
        ..plan
    }
}

/// What suits the traffic there is, as it is seen now.
pub(crate) fn suiting(world: &World<'_>, state: &State) -> Result<Plan, Unsuited> {
    let snapshot = jobs::snapshot(world, state.in_force());
    let suited = reweave_repair::suited(&snapshot, &world.known.policy.planner)?;
    let mut wanted = suited.circuits;
    wanted.retain(|optical, circuits| snapshot.circuits.get(optical) != Some(circuits));
    Ok(Plan {
        iterations: suited.iterations,
        ..plan(world, state, &wanted)
    })
}

fn plugged_into(fabric: &Fabric, circuits: &Circuits) -> BTreeSet<NodeId> {
    let fibres = fabric.fibres();
    let of_these = fibres.filter(|fibre| circuits.contains_key(&fibre.optical));
    of_these.map(|fibre| fibre.node).collect()
}

/// Whether nodes with fibres are to get an instruction about these links, or one that they may be
/// used again.
pub(crate) fn concerns(fabric: &Fabric, state: &State, links: &BTreeSet<LinkId>) -> bool {
    let tables = &state.in_force().tables;
    fabric.fibres().any(|fibre| {
        let mut own = fabric.links_of(fibre.node).iter();
        tables.contains_key(&fibre.node) || own.any(|link| links.contains(link))
    })
}

/// What nodes with fibres hold so that they do without some links, by the circuits there are.
pub(crate) fn tables_without(
    world: &World<'_>,
    state: &State,
    links: &BTreeSet<LinkId>,
) -> Result<Tables, Partitioned> {
    let fabric = world.fabric();
    let mut closed = fabric.dark(&state.in_force().circuits_of(fabric));
    closed.extend(world.down());
    let before = Routes::around(fabric, &closed);
    closed.extend(links);
    let after = Routes::around(fabric, &closed);
    let ways = |from| fabric.endpoints().map(move |to| (from, to));
    let mut ways = fabric.endpoints().flat_map(ways);
    let is_lost = |(from, to): &(NodeId, NodeId)| {
        before.hops(*from, *to).is_some() && after.hops(*from, *to).is_none()
    };
    match ways.find(is_lost) {
        Some((from, to)) => Err(Partitioned { from, to }),
        None => Ok(tables(fabric, &closed)),
    }
}

/// Of nodes with fibres: a node without any is not asked to know where circuits lead.
fn tables(fabric: &Fabric, closed: &BTreeSet<LinkId>) -> Tables {
    let ground = Ground { fabric, closed };
    let nodes: BTreeSet<_> = fabric.fibres().map(|fibre| fibre.node).collect();
    ground.tables(&ground.shortest(), None, nodes)
}
