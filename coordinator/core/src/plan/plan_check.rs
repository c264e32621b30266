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

/// The limit of next hops in a plan. A log entry goes to other coordinators in one message of at most 64 MiB, and a
/// snapshot in one of 256 MiB. A running plan is stored with its tables, those of each round forward and back, and the
/// instructions: about 100 bytes per next hop.
const MAX_PLAN_ENTRIES: usize = 1 << 18;
/// The minor version since which loads are checked: earlier builds cannot read this reason of a refusal.
const LOADS_SINCE_MINOR: u16 = 1;

/// Whether the plan is too large for the log. Checked before a plan is proposed.
pub(crate) fn too_large(plan: &Plan) -> Option<Reason> {
    let (entries, most) = (plan.entries(), MAX_PLAN_ENTRIES);
    (entries > most).then_some(Reason::TooLarge { entries, most })
}

/// The checker's objections to the plan, whatever it promises.
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

/// The measured loads. Only plans that change pins are checked for them.
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

/// The resources that the plan needs exclusively.
pub(crate) fn claims(world: &World<'_>, state: &State, plan: &Plan) -> ResourceSet {
    with_network(world, state, plan, |network| {
        reweave_check::claims(network, plan)
    })
}

/// The network that a plan is checked against, without measured loads.
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
        nics: world.wiring.nics(),
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
