//! Predicts flows and jobs under a plan that was made for another purpose than speed.

use reweave_common::plan::Plan;
use reweave_common::snapshot::Snapshot;
use reweave_repair::{Promise, promised};

use crate::log::state::State;
use crate::model::evidence::lossy;
use crate::model::jobs;
use crate::model::world::World;

/// Adds predictions to a plan that has none.
pub(crate) fn promising(world: &World<'_>, state: &State, plan: Plan) -> Plan {
    if !plan.moves.is_empty() || !plan.predictions.is_empty() {
        return plan;
    }
    let snapshot = Snapshot {
        lossy: lossy(world),
        ..jobs::snapshot(world, state.in_force())
    };
    let Promise {
        predictions,
        iterations,
    } = promised(&snapshot, &plan, &world.known.policy.planner);
    let iterations = if plan.iterations.is_empty() {
        iterations
    } else {
        plan.iterations
    };
    Plan {
        predictions,
        iterations,
        ..plan
    }
}
