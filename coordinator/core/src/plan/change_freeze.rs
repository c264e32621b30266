//! Jobs under a change freeze: no plan affects a link that their flows use.

use std::collections::BTreeSet;

use reweave_common::ids::{LinkId, NodeId};
use reweave_common::migration_plan::Tables;
use reweave_common::operator::FrozenStatus;
use reweave_common::plan::{Pin, Plan};
use reweave_common::snapshot::FlowState;

use crate::log::reason::Reason;
use crate::log::state::State;
use crate::model::world::{Measurements, World};
use crate::plan::drain_routes::Network;
use crate::plan::proposals;

/// The frozen jobs that a plan would touch, and where. Repairs of black holes are exempt.
pub(crate) fn objections(world: &World<'_>, state: &State, plan: &Plan) -> Vec<Reason> {
    let is_it = |urgent: Plan| proposals::do_the_same(&urgent, plan);
    if state.frozen().is_empty() || proposals::urgent(world, state).is_some_and(is_it) {
        return Vec::new();
    }
    let touched = touched(world, state, plan);
    state
        .frozen()
        .iter()
        .filter_map(|job| {
            let link = *used(world, state, &job.hosts)
                .intersection(&touched)
                .next()?;
            let host = *job.hosts.first()?;
            Some(Reason::Frozen { host, link })
        })
        .collect()
}

pub(crate) fn status(known: Measurements<'_>, state: &State) -> Vec<FrozenStatus> {
    state
        .frozen()
        .iter()
        .map(|job| FrozenStatus {
            hosts: names(known, &job.hosts),
            by: job.by.to_string(),
            age_ms: crate::log::millis::millis(known.now.since(job.since)),
        })
        .collect()
}

pub(crate) fn names(known: Measurements<'_>, hosts: &BTreeSet<NodeId>) -> Vec<String> {
    let names = hosts.iter().map(|host| known.fabric.name(*host).to_owned());
    names.collect()
}

/// All links that flows between these hosts use; if their paths are unknown, all links that they may use.
fn used(world: &World<'_>, state: &State, hosts: &BTreeSet<NodeId>) -> BTreeSet<LinkId> {
    let network = Network::now(world, state, &state.in_force().tables);
    let is_inside = |flow: &FlowState| hosts.contains(&flow.from) && hosts.contains(&flow.to);
    let flows = world.flows().into_iter().filter(is_inside);
    let links = flows.flat_map(|flow| {
        let there = flow.path.as_ref();
        let back = world.path_back(&flow);
        let ways = [
            (there, flow.from, flow.to),
            (back.as_ref(), flow.to, flow.from),
        ];
        let links = ways.map(|(path, from, to)| match path {
            Some(path) => path.iter().map(|hop| hop.link).collect(),
            None => network.passed([from], to),
        });
        links.into_iter().flatten().collect::<Vec<_>>()
    });
    links.collect()
}

/// All links whose traffic changes, or whose circuits move.
fn touched(world: &World<'_>, state: &State, plan: &Plan) -> BTreeSet<LinkId> {
    let in_force = state.in_force();
    let (old, new) = (&in_force.tables, &plan.tables);
    let mut touched: BTreeSet<_> = [old, new]
        .into_iter()
        .flat_map(|tables| behind_tables(world, state, tables, old, new))
        .collect();
    let is_in_both = |pin: &&Pin| in_force.pins.contains(pin) && plan.pins.contains(pin);
    let pins = in_force.pins.iter().chain(&plan.pins);
    for pin in pins.filter(|pin| !is_in_both(pin)) {
        touched.insert(pin.link);
        let to = world.wiring.node(*pin.flow.destination.ip());
        let next = world.fabric().link(pin.link).far(pin.at).node;
        let network = Network::now(world, state, new);
        touched.extend(to.map(|to| network.passed([next], to)).unwrap_or_default());
    }
    let fabric = world.fabric();
    let before = in_force.circuits_of(fabric);
    let mut after = before.clone();
    after.extend(plan.circuits.clone());
    let (before, after) = (fabric.dark(&before), fabric.dark(&after));
    touched.extend(before.symmetric_difference(&after));
    touched
}

/// The links that packets pass by either of two tables, from where these differ.
fn behind_tables(
    world: &World<'_>,
    state: &State,
    tables: &Tables,
    old: &Tables,
    new: &Tables,
) -> BTreeSet<LinkId> {
    let network = Network::now(world, state, tables);
    let nodes: BTreeSet<_> = old.keys().chain(new.keys()).copied().collect();
    let entry = |tables: &Tables, at, to| tables.get(&at)?.towards.get(&to).cloned();
    let behind = |to: NodeId| {
        let differs = |at: &NodeId| entry(old, *at, to) != entry(new, *at, to);
        let changed: Vec<_> = nodes.iter().copied().filter(differs).collect();
        network.passed(changed, to)
    };
    let tables = old.values().chain(new.values());
    let keys: BTreeSet<_> = tables.flat_map(|table| table.towards.keys()).collect();
    keys.into_iter().copied().flat_map(behind).collect()
}
