//! Asking the judge of plans, who shares nothing with the planner.

use reweave_check::{Network, check};
use reweave_common::claims::Claims;
use reweave_common::course::Tables;
use reweave_common::plan::Plan;

use crate::model::Picture;
use crate::reason::Reason;
use crate::state::State;

/// An entry of the log goes to other coordinators as one letter, which holds 64 MiB. The widest that a plan makes are
/// the plan itself and its rounds, with some 20 bytes for each next hop.
const MAX_PLAN_ENTRIES: usize = 1 << 20;

/// What speaks against the plan, whatever it promises.
pub(crate) fn objections(picture: &Picture<'_>, state: &State, plan: &Plan) -> Vec<Reason> {
    let entries = plan.entries();
    if entries > MAX_PLAN_ENTRIES {
        let most = MAX_PLAN_ENTRIES;
        return vec![Reason::TooLarge { entries, most }];
    }
    let unsound = with_network(picture, state, plan, |network| check(network, plan));
    let unsound = unsound.err().into_iter().flatten();
    unsound.map(Reason::Unsound).collect()
}

/// What the plan needs for itself alone.
pub(crate) fn claims(picture: &Picture<'_>, state: &State, plan: &Plan) -> Claims {
    with_network(picture, state, plan, |network| {
        reweave_check::claims(network, plan)
    })
}

/// The network that a plan is judged against.
pub(crate) fn with_network<T>(
    picture: &Picture<'_>,
    state: &State,
    plan: &Plan,
    ask: impl FnOnce(&Network<'_>) -> T,
) -> T {
    let in_force = state.in_force();
    ask(&Network {
        fabric: picture.fabric(),
        addresses: &picture.wiring.addresses(),
        down: &picture.down(),
        generation: state.base_of(plan),
        pins: &in_force.pins,
        tables: &in_force.tables,
        unsure: &Tables::new(),
        circuits: &in_force.circuits_of(picture.fabric()),
        floor: picture.known.policy.capacity_floor,
        is_lossless: picture.known.policy.lossless,
    })
}
