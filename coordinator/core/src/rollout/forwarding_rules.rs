//! Converts pins, which name links, to rules, which name interfaces and addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use reweave_common::fabric::{Fabric, Role};
use reweave_common::flow::FlowKey;
use reweave_common::forwarding::{ForwardingTable, NextHop};
use reweave_common::forwarding_state::{RouteHop, RouteRule};
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::migration_plan::Tables;
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

/// A node's table as routes: one for each address that a destination stands for.
///
/// With several NICs a host, that is many routes: where 64 leaves with 128 NICs each are joined by 32 spines, a drained
/// link between a leaf and a spine takes 8 064 routes of 31 hops on its leaf, and 128 on each other one. The limit of
/// a plan counts them (`plan_check`).
pub(crate) fn routes(
    table: &ForwardingTable,
    fabric: &Fabric,
    wiring: &Wiring,
) -> Result<Vec<RouteRule>, Reason> {
    let by_link = addresses_by_link(wiring);
    let has_own = |host: NodeId| table.towards.contains_key(&host);
    let mut routes = Vec::new();
    for (&to, next) in &table.towards {
        let hops = next
            .iter()
            .map(|hop| route_hop(table.at, *hop, fabric, wiring));
        let hops: Vec<_> = hops.collect::<Result<_, Reason>>()?;
        let destinations = if fabric.node(to).role == Role::Switch {
            addresses_behind(to, has_own, fabric, &by_link)?
        } else {
            BTreeSet::from([address(to, fabric, wiring)?])
        };
        routes.extend(destinations.into_iter().map(|destination| RouteRule {
            destination,
            hops: hops.clone(),
        }));
    }
    Ok(routes)
}

/// The first NIC behind a leaf of these tables that has no known address.
pub(crate) fn unaddressed(tables: &Tables, fabric: &Fabric, wiring: &Wiring) -> Option<Reason> {
    let by_link = addresses_by_link(wiring);
    let keys = tables.values().flat_map(|table| table.towards.keys());
    let keys: BTreeSet<_> = keys.copied().collect();
    let mut leaves = keys
        .into_iter()
        .filter(|to| fabric.node(*to).role == Role::Switch);
    leaves.find_map(|leaf| addresses_behind(leaf, |_| false, fabric, &by_link).err())
}

fn addresses_by_link(wiring: &Wiring) -> BTreeMap<LinkId, Vec<Ipv4Addr>> {
    let mut by_link: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (&address, &link) in wiring.nics() {
        by_link.entry(link).or_default().push(address);
    }
    by_link
}

fn address(to: NodeId, fabric: &Fabric, wiring: &Wiring) -> Result<Ipv4Addr, Reason> {
    let known = fabric.address(to).or_else(|| wiring.only_address(to));
    known.ok_or(Reason::NoAddress { node: to })
}

/// All addresses of the NICs that hang on a leaf, whatever they are for, except those of hosts with a route of their
/// own. A host's own address is among them if it has no other NIC.
fn addresses_behind(
    leaf: NodeId,
    has_own: impl Fn(NodeId) -> bool,
    fabric: &Fabric,
    by_link: &BTreeMap<LinkId, Vec<Ipv4Addr>>,
) -> Result<BTreeSet<Ipv4Addr>, Reason> {
    let mut addresses = BTreeSet::new();
    let nics = fabric.nics_behind(leaf);
    for nic in nics.filter(|nic| !has_own(nic.host)) {
        let (host, link) = (nic.host, nic.link);
        let own = by_link.get(&link);
        addresses.extend(own.ok_or(Reason::UnknownPort { at: host, link })?);
        if let [_] = fabric.nics_of(host) {
            addresses.extend(fabric.address(host));
        }
    }
    Ok(addresses)
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
