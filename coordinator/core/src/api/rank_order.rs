//! Proposes a plan with a better order of a registered job's ranks, which the job uses at its next start.

use reweave_common::operator::{Refused, Response};
use reweave_common::plan::{Plan, RankOrder};

use super::registered_jobs::{known, placed, ring_rate};
use super::rewire::offer;
use crate::rollout::DecisionContext;

pub(super) fn reorder(turn: &mut DecisionContext<'_>, principal: String, job: &str) -> Response {
    match better(turn, job) {
        Ok(order) => {
            let orders = vec![order];
            let plan = Plan {
                orders,
                ..turn.state.as_it_is()
            };
            offer(turn, principal, plan)
        }
        Err(refused) => Response::Refused(refused),
    }
}

/// The best order now, and the order that the job has. A job without a recorded order chooses its own.
fn better(turn: &DecisionContext<'_>, job: &str) -> Result<RankOrder, Refused> {
    let job = job.to_owned();
    let Some(before) = known(turn, &job)?.order.clone() else {
        return Err(Refused::NotReordered { job });
    };
    let least_gain = turn.known.policy.planner.least_gain;
    let found = placed(turn.world(), &before);
    let found = found.filter(|it| it.before_s >= it.after_s * (1.0 + least_gain));
    match found {
        Some(found) => Ok(RankOrder {
            job,
            before,
            after: found.order,
            ring: Some([found.before_s, found.after_s].map(ring_rate)),
        }),
        None => {
            let least_gain_percent = (100.0 * least_gain).round() as u64;
            Err(Refused::NoBetterOrder {
                job,
                least_gain_percent,
            })
        }
    }
}
