//! Stale pins in force: the path beyond the pin has failed or is drained, or the flow has ended. A switch notices
//! neither: it follows a pin as long as the next link is up.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::fabric::Fabric;
use reweave_common::finding::{Useless, UselessPin};
use reweave_common::flow::FlowKey;
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::plan::{Pin, Plan};
use reweave_common::routes::Routes;
use reweave_common::snapshot::Hop;
use reweave_repair::paths::drained;

use crate::log::state::InForce;
use crate::model::world::{Measurements, World};

/// Pins beyond which every path ends at a link that is down, as one end reports, drained, or without a circuit.
pub(crate) fn dead(world: &World<'_>, in_force: &InForce) -> Vec<UselessPin> {
    let (fabric, pins) = (world.fabric(), &in_force.pins);
    if pins.is_empty() {
        return Vec::new();
    }
    let dark = fabric.dark(&in_force.circuits_of(fabric));
    let mut down = world.down();
    down.extend(drained(fabric, &in_force.tables));
    let pinned = pins.iter().map(|pin| pin.link);
    down.extend(pinned.filter(|link| dark.contains(link)));
    if down.is_empty() {
        return Vec::new();
    }
    let routes = Routes::around(fabric, &dark);
    let dead = pins.iter().filter_map(|pin| {
        let beyond = Beyond {
            fabric,
            routes: &routes,
            down: &down,
            pinned: of_flow(pins, pin.flow),
            to: world.known.ingest.owner(*pin.flow.destination.ip()),
        };
        let links = beyond.ends_of(hop(pin))?;
        Some(useless(pin, Useless::WayDown { links }))
    });
    dead.collect()
}

/// Pins of flows that have ended.
pub(crate) fn left_over(known: Measurements<'_>, pins: &[Pin]) -> Vec<UselessPin> {
    let ended = pins.iter().filter(|pin| known.has_ended(&pin.flow));
    ended.map(|pin| useless(pin, Useless::FlowEnded)).collect()
}

/// Whether a plan only removes pins, and all of them are useful again.
pub(crate) fn lifts_in_vain(world: &World<'_>, in_force: &InForce, plan: &Plan) -> bool {
    if !plan.only_lifts() {
        return false;
    }
    let gone: BTreeSet<_> = in_force
        .pins
        .iter()
        .filter(|pin| !plan.pins.contains(pin))
        .map(|pin| pin.flow)
        .collect();
    let useless = dead(world, in_force).into_iter();
    let mut useless = useless.chain(left_over(world.known, &in_force.pins));
    !useless.any(|pin| gone.contains(&pin.flow))
}

fn useless(pin: &Pin, because: Useless) -> UselessPin {
    UselessPin {
        flow: pin.flow,
        hop: hop(pin),
        because,
    }
}

fn hop(pin: &Pin) -> Hop {
    Hop {
        from: pin.at,
        link: pin.link,
    }
}

fn of_flow(pins: &[Pin], flow: FlowKey) -> BTreeMap<NodeId, LinkId> {
    let pins = pins.iter().filter(|pin| pin.flow == flow);
    pins.map(|pin| (pin.at, pin.link)).collect()
}

/// The possible paths of one flow's packets.
struct Beyond<'a> {
    fabric: &'a Fabric,
    routes: &'a Routes,
    down: &'a BTreeSet<LinkId>,
    pinned: BTreeMap<NodeId, LinkId>,
    /// None if no node has reported the address of the destination.
    to: Option<NodeId>,
}

impl Beyond<'_> {
    /// The failed links at the ends of all paths from here; none if some path arrives.
    fn ends_of(&self, first: Hop) -> Option<Vec<LinkId>> {
        let (mut ends, mut passed) = (BTreeSet::new(), BTreeSet::new());
        let mut open = vec![first];
        while let Some(Hop { from, link }) = open.pop() {
            let next = self.fabric.link(link).far(from).node;
            if self.down.contains(&link) {
                ends.insert(link);
            } else if self.to.is_none_or(|to| to == next) {
                return None;
            } else if passed.insert(next) {
                open.extend(self.hops_at(next));
            }
        }
        (!ends.is_empty()).then(|| ends.into_iter().collect())
    }

    fn hops_at(&self, from: NodeId) -> Vec<Hop> {
        let ordinary = self.to.map(|to| self.routes.next_hops(from, to));
        let links = match self.pinned.get(&from) {
            Some(pinned) => std::slice::from_ref(pinned),
            None => ordinary.unwrap_or_default(),
        };
        links.iter().map(|&link| Hop { from, link }).collect()
    }
}
