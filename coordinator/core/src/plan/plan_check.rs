//! Calls the plan checker, which shares no code with the planner.

use std::collections::BTreeMap;

use reweave_check::{Network, check};
use reweave_common::fabric::{Fabric, Role};
use reweave_common::forwarding::NextHop;
use reweave_common::ids::NodeId;
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
/// More links are counted but not named.
const MAX_NAMED_LINKS: usize = 5;
/// The minor version since which loads are checked: earlier builds cannot read this reason of a refusal.
const LOADS_SINCE_MINOR: u16 = 1;

/// Whether the plan is too large for the log. Checked before a plan is proposed.
pub(crate) fn too_large(fabric: &Fabric, plan: &Plan) -> Option<Reason> {
    let (entries, most) = (instructed_entries(fabric, plan), MAX_PLAN_ENTRIES);
    (entries > most).then_some(Reason::TooLarge { entries, most })
}

/// The entries of the plan, and those of its instructions that the plan has only one of for all NICs of a leaf. A fabric
/// of 64 leaves with 128 NICs each and 32 spines needs 500 000 for a drained link between a leaf and a spine, and
/// 16 million for a spine: with an instruction per address, it is beyond the limit.
fn instructed_entries(fabric: &Fabric, plan: &Plan) -> usize {
    let mut nics = BTreeMap::new();
    let is_leaf = |to: NodeId| {
        let is_there = to.index() < fabric.nodes().len();
        is_there && fabric.node(to).role == Role::Switch
    };
    let further = |(&to, hops): (&NodeId, &Vec<NextHop>)| {
        if !is_leaf(to) {
            return 0;
        }
        let behind = || fabric.nics_behind(to).count();
        let behind: &mut usize = nics.entry(to).or_insert_with(behind);
        hops.len() * behind.saturating_sub(1)
    };
    let towards = plan.tables.values().flat_map(|table| &table.towards);
    plan.entries() + towards.map(further).sum::<usize>()
}

/// What an operator can do while the only known plan is unsound.
pub(crate) fn by_hand(world: &World<'_>) -> String {
    let (fabric, down) = (world.fabric(), world.down());
    let names = down.iter().map(|&link| fabric.link_name(link));
    let names: Vec<_> = names.take(MAX_NAMED_LINKS).collect();
    if names.is_empty() {
        return "no sound plan is known: remove the cause by hand, or ask again later".to_owned();
    }
    let more = match down.len() - names.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "no sound plan is known: repair the links that are down ({}{more}), or drain other links",
        names.join(", ")
    )
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

#[cfg(test)]
mod tests {
    use reweave_common::forwarding::ForwardingTable;
    use reweave_common::plan::Generation;

    use super::*;

    #[test]
    fn instructions_count_each_nic() {
        let text = "kind = \"rails\"\npods = 2\nhosts_per_pod = 4\nrails = 8\nleaves_per_pod = 4\n\
                    spines = 4\nhost_gbps = 1\nuplink_gbps = 1";
        let fabric = Fabric::parse("fabric.toml", text).unwrap();
        let node = |name| fabric.find(name).unwrap();
        let at = node("leaf0-0");
        let spines = ["spine0", "spine1", "spine2"].map(node);
        let links = spines.map(|spine| fabric.links_between(at, spine).next().unwrap());
        let hops = links.map(|link| NextHop { link, weight: 1 }).to_vec();
        let entries = |to| {
            let table = ForwardingTable {
                at,
                towards: BTreeMap::from([(node(to), hops.clone())]),
                raises: Vec::new(),
            };
            let plan = Plan {
                tables: Tables::from([(at, table)]),
                ..Plan::empty(Generation(1), Generation(0))
            };
            instructed_entries(&fabric, &plan)
        };
        // Four hosts have two NICs each at this leaf.
        assert_eq!(entries("leaf1-0"), 3 * 8);
        assert_eq!(entries("h4"), 3);
    }
}
