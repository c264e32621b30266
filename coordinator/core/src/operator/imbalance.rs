//! How evenly flows are spread.

use reweave_common::operator::{FlowImbalance, hops};
use reweave_common::snapshot::Hop;

use crate::model::{Known, Picture};
use crate::state::InForce;

pub(super) fn flow_imbalance(
    known: Known<'_>,
    picture: &Picture<'_>,
    in_force: &InForce,
) -> Option<FlowImbalance> {
    let found = reweave_planner::spread(&picture.snapshot(in_force), &known.policy.planner);
    let worst = found.worst()?;
    let links = worst.group.links.iter();
    let from = worst.group.at;
    let over: Vec<_> = links.map(|&link| Hop { from, link }).collect();
    Some(FlowImbalance {
        mean_fim_percent: found.headline()?.mean_fim_percent,
        worst_over: hops(&over, known.fabric),
        worst: worst.imbalance,
    })
}
