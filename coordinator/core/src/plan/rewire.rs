//! Plans for circuits that an operator names or that suit the traffic, with the routes over them.

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

/// A plan for these circuits. Switches keep their routes, and devices under maintenance carry nothing. Other optical
/// switches and unaffected nodes do not change.
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
        iterations: reweave_repair::predicted(&snapshot, &plan.circuits, policy),
        ..plan
    }
}

/// A plan for the circuits that suit the present traffic.
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

/// Whether nodes with fibres must be instructed about these links, to avoid them or to use them again.
pub(crate) fn concerns(fabric: &Fabric, state: &State, links: &BTreeSet<LinkId>) -> bool {
    let tables = &state.in_force().tables;
    fabric.fibres().any(|fibre| {
        let mut own = fabric.links_of(fibre.node).iter();
        tables.contains_key(&fibre.node) || own.any(|link| links.contains(link))
    })
}

/// The tables with which nodes with fibres avoid these links under the present circuits.
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

/// The tables with which nodes with fibres use all links that carry packets now. None if a table in force leads to where
/// these links do not lead.
pub(crate) fn tables_now(world: &World<'_>, state: &State) -> Option<Tables> {
    let (fabric, in_force) = (world.fabric(), state.in_force());
    let circuits = in_force.circuits_of(fabric);
    let mut closed = fabric.dark(&circuits);
    closed.extend(world.down());
    closed.extend(world.lightless(&circuits));
    closed.extend(maintenance::closed(fabric, state));
    let routes = Routes::around(fabric, &closed);
    let with_fibres: BTreeSet<_> = fabric.fibres().map(|fibre| fibre.node).collect();
    let tables_in_force = in_force.tables.values();
    let mut theirs = tables_in_force.filter(|table| with_fibres.contains(&table.at));
    let is_whole = theirs.all(|table| {
        let mut destinations = table.towards.keys();
        destinations.all(|to| routes.hops(table.at, *to).is_some())
    });
    is_whole.then(|| tables(fabric, &closed))
}

/// Tables for nodes with fibres only: other nodes do not depend on circuits.
fn tables(fabric: &Fabric, closed: &BTreeSet<LinkId>) -> Tables {
    let ground = Ground { fabric, closed };
    let nodes: BTreeSet<_> = fabric.fibres().map(|fibre| fibre.node).collect();
    ground.tables(&ground.shortest(), None, nodes)
}
