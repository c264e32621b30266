//! An approval with a seal approves exactly the plan that was shown with it.

use reweave_common::operator::Refused;
use reweave_common::plan::Generation;

use super::offered;
use crate::rollout::DecisionContext;

/// Refuses an approval whose seal differs from the plan's. An unknown plan is refused later, by `apply`.
pub(super) fn objection(
    turn: &DecisionContext<'_>,
    generation: Generation,
    seals: &[String],
) -> Option<Refused> {
    let rollout = offered(turn, generation).ok()?;
    let shown = turn.reviewed(&rollout.plan).seal;
    (!seals.contains(&shown)).then_some(Refused::ChangedMeanwhile { generation })
}
