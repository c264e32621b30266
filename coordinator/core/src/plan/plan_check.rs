//! Calls the plan checker, which shares no code with the planner.

use std::collections::BTreeMap;

use reweave_check::{Network, check};
use reweave_common::migration_plan::Tables;
use reweave_common::plan::Plan;
use reweave_common::resource_set::ResourceSet;
use reweave_common::snapshot::{FlowState, Hop, LinkState};

use crate::log::reason::Reason;
use crate::log::state::State;
use crate::model::world::World;

/// An entry of the log goes to other coordinators as one letter, which holds 64 MiB, and a snapshot as one that holds
/// 256 MiB. While a plan is on its way there are its tables, those of each round in its migration and back, and what nodes
/// were instructed: up to some 100 bytes for each next hop.
const MAX_PLAN_ENTRIES: usize = 1 << 18;
/// Since this minor version loads are judged: the earlier one does not read why a plan is refused for them.
const LOADS_SINCE_MINOR: u16 = 1;

/// Nothing would be decided behind it in the log. To be asked before a plan is proposed.
pub(crate) fn too_large(plan: &Plan) -> Option<Reason> {
    let (entries, most) = (plan.entries(), MAX_PLAN_ENTRIES);
    (entries > most).then_some(Reason::TooLarge { entries, most })
}

/// What speaks against the plan, independent of its promise.
pub(crate) fn objections(world: &World<'_>, state: &State, plan: &Plan) -> Vec<Reason> {
    let (flows, link_loads) = loads(world, state, plan);
    let unsound = with_network(world, state, plan, |network| {
        let measured = Network {
            flows: &flows,
            link_loads: &link_loads,
            ..*network
        };
        check(&measured, plan)
    });
    let unsound = unsound.err().into_iter().flatten();
    unsound.map(Reason::Unsound).collect()
}

/// What was measured of flows and links. Only of plans that change pins loads are judged.
fn loads(
    world: &World<'_>,
    state: &State,
    plan: &Plan,
) -> (Vec<FlowState>, BTreeMap<Hop, LinkState>) {
    let in_force = state.in_force();
    if state.cluster_version() < LOADS_SINCE_MINOR || plan.pins == in_force.pins {
        return (Vec::new(), BTreeMap::new());
    }
    let circuits = in_force.circuits_of(world.fabric());
    (world.flows(), world.links_by(&circuits))
}

/// What the plan needs for itself alone.
pub(crate) fn claims(world: &World<'_>, state: &State, plan: &Plan) -> ResourceSet {
    with_network(world, state, plan, |network| {
        reweave_check::claims(network, plan)
    })
}

/// The network that a plan is judged against, but for what it carries.
pub(crate) fn with_network<T>(
    world: &World<'_>,
    state: &State,
    plan: &Plan,
    ask: impl FnOnce(&Network<'_>) -> T,
) -> T {
    let in_force = state.in_force();
    ask(&Network {
        fabric: world.fabric(),
        addresses: &world.wiring.addresses(),
        down: &world.down(),
        generation: state.base_of(plan),
        pins: &in_force.pins,
        tables: &in_force.tables,
        unsure: &Tables::new(),
        circuits: &in_force.circuits_of(world.fabric()),
        floor: world.known.policy.capacity_floor,
        is_lossless: world.known.policy.lossless,
        flows: &[],
        link_loads: &BTreeMap::new(),
    })
}
