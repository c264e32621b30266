//! Asking the planner.

use reweave_common::finding::Finding;
use reweave_common::plan::Plan;
use reweave_common::snapshot::Snapshot;

use crate::policy::Policy;
use crate::state::State;

pub(crate) fn findings(policy: &Policy, snapshot: &Snapshot) -> Vec<Finding> {
    reweave_planner::diagnose(snapshot, &policy.planner)
}

/// What would mend what is wrong. Its number is one that no plan had before, so that an operator
/// who approves a number approves what was shown, and no agent takes it for something old.
pub(crate) fn plan(policy: &Policy, state: &State, snapshot: &Snapshot) -> Option<Plan> {
    let findings = findings(policy, snapshot);
    let plan = reweave_planner::plan(snapshot, &findings, &policy.planner)?;
    Some(Plan {
        generation: state.next_generation(),
        ..plan
    })
}

/// Whether both lead from the same routes to the same routes, whatever they promise.
pub(crate) fn do_the_same(one: &Plan, other: &Plan) -> bool {
    (one.parent, &one.pins, &one.moves) == (other.parent, &other.pins, &other.moves)
}
