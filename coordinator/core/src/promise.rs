//! What becomes of flows and jobs by a plan that was made for something else.

use reweave_common::plan::Plan;
use reweave_common::snapshot::Snapshot;
use reweave_planner::{Promise, promised};

use crate::evidence::lossy;
use crate::jobs;
use crate::model::Picture;
use crate::state::State;

/// With what it promises, where who made it has not said so: a plan that is to mend something knows.
pub(crate) fn promising(picture: &Picture<'_>, state: &State, plan: Plan) -> Plan {
    if !plan.moves.is_empty() || !plan.predictions.is_empty() {
        return plan;
    }
    let snapshot = Snapshot {
        lossy: lossy(picture),
        ..jobs::snapshot(picture, state.in_force())
    };
    let Promise {
        predictions,
        iterations,
    } = promised(&snapshot, &plan, &picture.known.policy.planner);
    let iterations = match plan.iterations.is_empty() {
        true => iterations,
        false => plan.iterations,
    };
    Plan {
        predictions,
        iterations,
        ..plan
    }
}
