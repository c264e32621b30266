//! What is measured of the network as a whole.

use reweave_common::operator::{FlowImbalance, Measured, hops};
use reweave_common::snapshot::Hop;
use reweave_planner::fim::imbalances;

use crate::model::{Known, Picture};
use crate::state::InForce;

pub(super) fn measured(known: Known<'_>, picture: &Picture<'_>, in_force: &InForce) -> Measured {
    Measured {
        flow_imbalance: flow_imbalance(known, picture, in_force),
    }
}

fn flow_imbalance(
    known: Known<'_>,
    picture: &Picture<'_>,
    in_force: &InForce,
) -> Option<FlowImbalance> {
    let found = imbalances(&picture.snapshot(in_force), &known.policy.planner);
    let (group, worst) = found.worst()?;
    let links = group.links.iter();
    let over: Vec<_> = links
        .map(|&link| Hop {
            from: group.at,
            link,
        })
        .collect();
    Some(FlowImbalance {
        mean_fim_percent: found.mean_fim_percent()?,
        worst_over: hops(&over, known.fabric),
        worst: *worst,
    })
}
