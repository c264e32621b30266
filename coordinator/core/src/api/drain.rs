//! Proposes a plan of routes for links that an operator drains or weights. Other links stay as they are, and so do
//! those under maintenance.

use reweave_common::fabric::Fabric;
use reweave_common::operator::{Refused, Response};

use super::rewire::offer;
use crate::log::{device, maintenance};
use crate::plan::drain_routes::{self, LinkIntent, Partitioned, SplitHost};
use crate::rollout::DecisionContext;

/// The links that an operator named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wished {
    Drained,
    Weights,
}

pub(super) fn drain(
    turn: &mut DecisionContext<'_>,
    principal: String,
    names: &[String],
) -> Response {
    let fabric = turn.known.fabric;
    match device::links(fabric, names) {
        Ok(mut drained) => {
            drained.extend(maintenance::closed(fabric, turn.state));
            wish(turn, principal, Wished::Drained, |now| LinkIntent {
                drained,
                ..now
            })
        }
        Err(refused) => Response::Refused(refused),
    }
}

pub(super) fn weigh(turn: &mut DecisionContext<'_>, principal: String, by_worth: bool) -> Response {
    wish(turn, principal, Wished::Weights, |now| LinkIntent {
        by_worth,
        ..now
    })
}

pub(super) fn wish(
    turn: &mut DecisionContext<'_>,
    principal: String,
    about: Wished,
    wanted: impl FnOnce(LinkIntent) -> LinkIntent,
) -> Response {
    let fabric = turn.known.fabric;
    let wish = wanted(LinkIntent::in_force(fabric, turn.state));
    let world = turn.world();
    let plan = match about {
        Wished::Drained => drain_routes::plan_with_relays(world, turn.state, &wish),
        Wished::Weights => drain_routes::plan(world, turn.state, &wish),
    };
    match plan {
        Ok(plan) => {
            let unweighable = drain_routes::unweighable(world, &plan.tables);
            if !unweighable.is_empty() {
                return Response::Refused(Refused::Unfit {
                    reasons: unweighable,
                });
            }
            if let Some(split) = drain_routes::split_host(world, &plan.tables) {
                return Response::Refused(split_refused(fabric, &split));
            }
            let left = drain_routes::crossed(world, turn.state, &plan.tables, &wish.drained);
            match left.first() {
                Some(link) => Response::Refused(Refused::NotAround {
                    link: fabric.link_name(*link),
                }),
                None => offer(turn, principal, plan),
            }
        }
        Err(Partitioned { from, to }) => {
            let [from, to] = [from, to].map(|node| fabric.name(node).to_owned());
            Response::Refused(Refused::CutOff { from, to })
        }
    }
}

fn split_refused(fabric: &Fabric, split: &SplitHost) -> Refused {
    let others: Vec<_> = split.others.iter().map(ToString::to_string).collect();
    let reason = format!(
        "routes lead to {} by its address {} alone, and flows to {} would stay where they are",
        fabric.name(split.host),
        split.routed,
        others.join(", ")
    );
    Refused::Unfit {
        reasons: vec![reason],
    }
}
