//! Links that a person wants to carry nothing: made into a plan of routes, and put on offer.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::fabric::Fabric;
use reweave_common::ids::LinkId;
use reweave_common::operator::{Refused, Response};

use super::rewire::offer;
use super::running;
use crate::draining::{self, CutOff};
use crate::rollout::Turn;

pub(super) fn drain(turn: &mut Turn<'_>, principal: String, links: &[String]) -> Response {
    if let Some(running) = running(turn) {
        return Response::Refused(Refused::Busy { running });
    }
    let fabric = turn.known.fabric;
    let links = match resolve(fabric, links) {
        Ok(links) => links,
        Err(refused) => return Response::Refused(refused),
    };
    match draining::plan(&turn.known.picture(), turn.state, &links) {
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
