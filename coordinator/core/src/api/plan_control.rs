//! Holds, resumes and aborts a running plan at an operator's request.

use reweave_common::operator::{Refused, Response, Steering};
use reweave_common::plan::Generation;

use crate::log::command::{Author, Change};
use crate::log::reason::Reason;
use crate::log::state::{Phase, Rollout};
use crate::rollout::DecisionContext;

pub(super) fn steer(
    turn: &mut DecisionContext<'_>,
    principal: String,
    generation: Generation,
    how: Steering,
) -> Response {
    let refused = match turn.state.rollout(generation) {
        Some(rollout) => objection(rollout, how),
        None => Some(Refused::NotUnderWay { generation }),
    };
    if let Some(refused) = refused {
        return Response::Refused(refused);
    }
    let by = Author::Operator(principal);
    let steered = Change::Steered {
        generation,
        how,
        by: by.clone(),
    };
    let [needed, has] = [steered.since(), turn.state.cluster_version()];
    if needed > has {
        return Response::Refused(Refused::ClusterVersionTooLow { needed, has });
    }
    turn.decide(match how {
        Steering::Abort => Change::Together(vec![withdrawn(generation, by), steered]),
        Steering::Hold | Steering::Resume => steered,
    });
    Response::Steered { generation, how }
}

/// Withdraws a plan that has not started.
fn withdrawn(generation: Generation, by: Author) -> Change {
    let reasons = vec![Reason::Aborted { by }];
    Change::PlanWithdrawn {
        generation,
        reasons,
    }
}

fn objection(rollout: &Rollout, how: Steering) -> Option<Refused> {
    let generation = rollout.plan.generation;
    let is_offer = rollout.phase == Phase::Proposed;
    let goes_on = !rollout.is_stopped() && !rollout.is_held();
    let is_given_up = rollout.leads_back() || rollout.steered.aborted.is_some();
    match how {
        Steering::Hold | Steering::Resume if is_offer => Some(Refused::NotUnderWay { generation }),
        Steering::Resume if goes_on => Some(Refused::NotStopped { generation }),
        // An abort continues a held rollback.
        Steering::Abort if is_given_up && !rollout.is_stopped() => {
            Some(Refused::GoesBack { generation })
        }
        _ => None,
    }
}
