//! Asking the judge of plans, who shares nothing with the planner.

use std::collections::BTreeSet;

use reweave_check::{Network, check};
use reweave_common::plan::Plan;
use reweave_common::snapshot::Hop;

use crate::model::Picture;
use crate::reason::Reason;
use crate::state::InForce;

/// What speaks against the plan, whatever it promises.
pub(crate) fn objections(picture: &Picture<'_>, in_force: &InForce, plan: &Plan) -> Vec<Reason> {
    let down = picture.links().into_iter().filter(|(_, state)| !state.up);
    let down: BTreeSet<_> = down.map(|(Hop { link, .. }, _)| link).collect();
    let network = Network {
        fabric: picture.fabric(),
        addresses: &picture.wiring.addresses(),
        down: &down,
        generation: in_force.generation,
        pins: &in_force.pins,
    };
    let unsound = check(&network, plan).err().into_iter().flatten();
    unsound.map(Reason::Unsound).collect()
}
