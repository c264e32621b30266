//! Asking the judge of plans, who shares nothing with the planner.

use reweave_check::{Network, check};
use reweave_common::course::Tables;
use reweave_common::plan::Plan;

use crate::model::Picture;
use crate::reason::Reason;
use crate::state::InForce;

/// What speaks against the plan, whatever it promises.
pub(crate) fn objections(picture: &Picture<'_>, in_force: &InForce, plan: &Plan) -> Vec<Reason> {
    let network = Network {
        fabric: picture.fabric(),
        addresses: &picture.wiring.addresses(),
        down: &picture.down(),
        generation: in_force.generation,
        pins: &in_force.pins,
        tables: &in_force.tables,
        unsure: &Tables::new(),
        circuits: &in_force.circuits_of(picture.fabric()),
        floor: picture.known.policy.capacity_floor,
    };
    let unsound = check(&network, plan).err().into_iter().flatten();
    unsound.map(Reason::Unsound).collect()
}
