//! Proposes a plan of routes for links that an operator drains or weights. Other links stay as they are, and so do
//! those under maintenance.

use std::slice;

use reweave_common::fabric::Fabric;
use reweave_common::ids::LinkId;
use reweave_common::operator::{Refused, Response};

use super::rewire::offer;
use crate::log::{device, maintenance};
use crate::plan::drain_routes::{self, LinkIntent, Partitioned};
use crate::rollout::{DecisionContext, forwarding_rules};

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
    let reasons = undrainable(fabric, names);
    if !reasons.is_empty() {
        return Response::Refused(Refused::Unfit { reasons });
    }
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
                let reasons = vec![split.words(fabric)];
                return Response::Refused(Refused::Unfit { reasons });
            }
            let unaddressed = forwarding_rules::unaddressed(&plan.tables, fabric, &world.wiring);
            if let Some(reason) = unaddressed {
                let reasons = vec![reason.words(fabric)];
                return Response::Refused(Refused::Unfit { reasons });
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

/// The names that stand for cables of NICs alone. By which of its NICs a host sends is its own choice.
fn undrainable(fabric: &Fabric, names: &[String]) -> Vec<String> {
    let is_of_nics = |name: &&String| {
        let links = device::links(fabric, slice::from_ref(*name)).unwrap_or_default();
        let is_nic = |link: &LinkId| fabric.nic_at(*link).is_some();
        !links.is_empty() && links.iter().all(is_nic)
    };
    let names = names.iter().filter(|_| fabric.has_declared_nics());
    let of_nics = names.filter(is_of_nics);
    let reason = |name: &String| {
        format!(
            "no route leads around {name}: a host chooses by itself over which of its NICs it sends; \
             move its jobs, and drain links between switches"
        )
    };
    of_nics.map(reason).collect()
}
