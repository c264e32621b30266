//! Converts pins, which name links, to rules, which name interfaces and addresses.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::fabric::Fabric;
use reweave_common::flow::FlowKey;
use reweave_common::forwarding::{ForwardingTable, NextHop};
use reweave_common::forwarding_state::{RouteHop, RouteRule};
use reweave_common::ids::NodeId;
use reweave_common::plan::Pin;
use reweave_common::sample::PinRule;
use reweave_common::snapshot::Hop;

use crate::log::reason::Reason;
use crate::model::world::Wiring;

/// All rules of every switch whose pins differ between the parent and the plan.
pub(crate) fn changed(
    parent: &[Pin],
    plan: &[Pin],
    fabric: &Fabric,
    wiring: &Wiring,
) -> Result<BTreeMap<NodeId, Vec<PinRule>>, Vec<Reason>> {
    let empty = |switch| (switch, Vec::new());
    let mut rules: BTreeMap<_, Vec<_>> = switches(parent, plan).into_iter().map(empty).collect();
    let mut unknown = Vec::new();
    for pin in plan {
        let Some(of_switch) = rules.get_mut(&pin.at) else {
            continue;
        };
        match rule(pin, fabric, wiring) {
            Ok(rule) => of_switch.push(rule),
            Err(reason) => unknown.push(reason),
        }
    }
    if unknown.is_empty() {
        Ok(rules)
    } else {
        Err(unknown)
    }
}

/// The switches at which pins differ between the parent and the plan.
pub(crate) fn switches(parent: &[Pin], plan: &[Pin]) -> BTreeSet<NodeId> {
    difference(parent, plan).map(|pin| pin.at).collect()
}

/// The flows whose pins differ between the parent and the plan.
pub(crate) fn rerouted(parent: &[Pin], plan: &[Pin]) -> BTreeSet<FlowKey> {
    difference(parent, plan).map(|pin| pin.flow).collect()
}

/// The switches at which the plan removes pins of its parent, and those at which it sets new ones.
pub(crate) fn lifted_and_set(parent: &[Pin], plan: &[Pin]) -> [BTreeSet<NodeId>; 2] {
    let [before, after] = [parent, plan].map(|pins| pins.iter().collect::<BTreeSet<_>>());
    [[&before, &after], [&after, &before]].map(|[pins, others]| {
        let only = pins.difference(others);
        only.map(|pin| pin.at).collect()
    })
}

fn difference<'p>(parent: &'p [Pin], plan: &'p [Pin]) -> impl Iterator<Item = &'p Pin> {
    let [before, after] = [parent, plan].map(|pins| pins.iter().collect::<BTreeSet<_>>());
    let differing: Vec<_> = before.symmetric_difference(&after).copied().collect();
    differing.into_iter()
}

/// A node's table as routes.
pub(crate) fn routes(
    table: &ForwardingTable,
    fabric: &Fabric,
    wiring: &Wiring,
) -> Result<Vec<RouteRule>, Reason> {
    let route = |(&to, hops): (&NodeId, &Vec<NextHop>)| {
        let destination = fabric.address(to).or_else(|| wiring.only_address(to));
        let destination = destination.ok_or(Reason::NoAddress { node: to })?;
        let hops = hops
            .iter()
            .map(|hop| route_hop(table.at, *hop, fabric, wiring));
        let hops: Result<_, Reason> = hops.collect();
        Ok(RouteRule {
            destination,
            hops: hops?,
        })
    };
    table.towards.iter().map(route).collect()
}

/// The next hop over a link: over a fibre it is the peer's loopback address, over a cable the address of its end.
fn route_hop(
    at: NodeId,
    NextHop { link, weight }: NextHop,
    fabric: &Fabric,
    wiring: &Wiring,
) -> Result<RouteHop, Reason> {
    let far = fabric.link(link).far(at).node;
    let unknown = |at| Reason::UnknownPort { at, link };
    if let Some(fibre) = fabric.fibre_of(at, link) {
        let next_hop = fabric.address(far);
        return Ok(RouteHop {
            interface: fibre.interface.clone(),
            next_hop: next_hop.ok_or(Reason::NoAddress { node: far })?,
            weight,
        });
    }
    let end = |from| wiring.end(Hop { from, link }).ok_or(unknown(from));
    Ok(RouteHop {
        interface: end(at)?.interface.clone(),
        next_hop: end(far)?.address,
        weight,
    })
}

fn rule(pin: &Pin, fabric: &Fabric, wiring: &Wiring) -> Result<PinRule, Reason> {
    let far = fabric.link(pin.link).far(pin.at).node;
    let end = |from| {
        let end = wiring.end(Hop {
            from,
            link: pin.link,
        });
        end.ok_or(Reason::UnknownPort {
            at: from,
            link: pin.link,
        })
    };
    let (near, far) = (end(pin.at)?, end(far)?);
    Ok(PinRule {
        flow: pin.flow,
        interface: near.interface.clone(),
        next_hop: far.address,
    })
}
