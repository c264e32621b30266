//! Links that a person wants to carry nothing, or what they are worth: made into a plan of routes, and put
//! on offer. What is not spoken of stays as it is.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::fabric::Fabric;
use reweave_common::ids::LinkId;
use reweave_common::operator::{Refused, Response};

use super::rewire::offer;
use super::running;
use crate::carrying::{self, CutOff, Wish};
use crate::rollout::Turn;

pub(super) fn drain(turn: &mut Turn<'_>, principal: String, links: &[String]) -> Response {
    match resolve(turn.known.fabric, links) {
        Ok(drained) => wish(turn, principal, |now| Wish { drained, ..now }),
        Err(refused) => Response::Refused(refused),
    }
}

pub(super) fn weigh(turn: &mut Turn<'_>, principal: String, by_worth: bool) -> Response {
    wish(turn, principal, |now| Wish { by_worth, ..now })
}

fn wish(turn: &mut Turn<'_>, principal: String, wanted: impl FnOnce(Wish) -> Wish) -> Response {
    if let Some(running) = running(turn) {
        return Response::Refused(Refused::Busy { running });
    }
    let fabric = turn.known.fabric;
    let wish = wanted(Wish::in_force(fabric, &turn.state.in_force().tables));
    match carrying::plan(&turn.known.picture(), turn.state, &wish) {
        Ok(plan) => offer(turn, principal, plan),
        Err(CutOff { from, to }) => {
            let [from, to] = [from, to].map(|node| fabric.name(node).to_owned());
            Response::Refused(Refused::CutOff { from, to })
        }
    }
}

fn resolve(fabric: &Fabric, names: &[String]) -> Result<BTreeSet<LinkId>, Refused> {
    let links = fabric.links();
    let links: BTreeMap<_, _> = links
        .map(|(link, _)| (fabric.link_name(link), link))
        .collect();
    let find = |name: &String| {
        let link = links.get(name).copied();
        let name = name.clone();
        link.ok_or(Refused::NoSuchLink { name })
    };
    names.iter().map(find).collect()
}
