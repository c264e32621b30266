//! An approval with a seal approves what the seal stood for when it was shown.

use reweave_common::operator::Refused;
use reweave_common::plan::Generation;

use super::offered;
use crate::rollout::DecisionContext;

/// The approver has seen something else. A plan that is not on offer is refused by the code that applies it.
pub(super) fn objection(
    turn: &DecisionContext<'_>,
    generation: Generation,
    seals: &[String],
) -> Option<Refused> {
    let rollout = offered(turn, generation).ok()?;
    let shown = turn.reviewed(&rollout.plan).seal;
    (!seals.contains(&shown)).then_some(Refused::ChangedMeanwhile { generation })
}
