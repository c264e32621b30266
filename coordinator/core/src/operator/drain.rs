//! Links that a person wants to carry nothing, or what they are worth: made into a plan of routes, and put
//! on offer. What is not spoken of stays as it is, and so does what is under maintenance.

use reweave_common::operator::{Refused, Response};

use super::rewire::offer;
use crate::carrying::{self, CutOff, Wish};
use crate::places;
use crate::rollout::Turn;
use crate::upkeep;

/// What a person has said something about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wished {
    Drained,
    Weights,
}

pub(super) fn drain(turn: &mut Turn<'_>, principal: String, names: &[String]) -> Response {
    let fabric = turn.known.fabric;
    match places::links(fabric, names) {
        Ok(mut drained) => {
            drained.extend(upkeep::closed(fabric, turn.state));
            wish(turn, principal, Wished::Drained, |now| Wish {
                drained,
                ..now
            })
        }
        Err(refused) => Response::Refused(refused),
    }
}

pub(super) fn weigh(turn: &mut Turn<'_>, principal: String, by_worth: bool) -> Response {
    wish(turn, principal, Wished::Weights, |now| Wish {
        by_worth,
        ..now
    })
}

pub(super) fn wish(
    turn: &mut Turn<'_>,
    principal: String,
    about: Wished,
    wanted: impl FnOnce(Wish) -> Wish,
) -> Response {
    let fabric = turn.known.fabric;
    let wish = wanted(Wish::in_force(fabric, turn.state));
    let picture = turn.known.picture();
    let plan = match about {
        Wished::Drained => carrying::plan_with_relays(&picture, turn.state, &wish),
        Wished::Weights => carrying::plan(&picture, turn.state, &wish),
    };
    match plan {
        Ok(plan) => {
            let left = carrying::crossed(&picture, turn.state, &plan.tables, &wish.drained);
            match left.first() {
                Some(link) => Response::Refused(Refused::NotAround {
                    link: fabric.link_name(*link),
                }),
                None => offer(turn, principal, plan),
            }
        }
        Err(CutOff { from, to }) => {
            let [from, to] = [from, to].map(|node| fabric.name(node).to_owned());
            Response::Refused(Refused::CutOff { from, to })
        }
    }
}
