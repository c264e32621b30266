//! Nodes that hold other rules than instructed. A kernel drops the routes over an interface that is down: then the link
//! is the cause, and not the agent.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use reweave_common::circuit::CircuitSet;
use reweave_common::forwarding_state::{ForwardingState, RouteHop};
use reweave_common::ids::NodeId;

use crate::log::state::State;
use crate::model::world::World;

/// What is wrong with the rules that a node reads back; none if they are those of its last instruction.
pub(super) fn alarm(world: &World<'_>, state: &State, node: NodeId) -> Option<String> {
    let known = world.known;
    let observed = known.ingest.observations().node(node);
    let observed = observed.filter(|_| known.is_fresh(node))?;
    let held = &observed.holds.as_ref()?.value.1;
    let desired = state.in_force().holding(node);
    if held.is_same_as(&desired) {
        return None;
    }
    let name = known.fabric.name(node);
    let is_down = |interface: &&str| {
        let counters = world.counted(node, interface);
        counters.is_some_and(|counters| !counters.value.up)
    };
    let missing = missing_over(held, &desired).filter(|it| it.iter().all(is_down));
    Some(match missing {
        Some(interfaces) => {
            let places = interfaces.iter().map(|interface| {
                let place = place(world, state, node, interface);
                format!("{interface}, which is down ({place})")
            });
            let places: Vec<_> = places.collect();
            format!("{name} has no routes over {}", places.join(" and "))
        }
        None => format!("{name} holds rules that differ from its instruction; check its agent"),
    })
}

/// The interfaces of all entries that a node lacks; none if it holds something that it should not hold.
fn missing_over<'d>(
    held: &ForwardingState,
    desired: &'d ForwardingState,
) -> Option<BTreeSet<&'d str>> {
    let (has, wanted) = (by_destination(held), by_destination(desired));
    let is_wanted = |(destination, hops): (&Ipv4Addr, &&[RouteHop])| {
        let wanted = wanted.get(destination).copied().unwrap_or_default();
        hops.iter().all(|hop| is_among(wanted, hop))
    };
    let only_wanted = held.rules.iter().all(|rule| desired.rules.contains(rule));
    if !only_wanted || !has.iter().all(is_wanted) {
        return None;
    }
    let rules = desired.rules.iter().filter(|it| !held.rules.contains(it));
    let rules = rules.map(|rule| rule.interface.as_str());
    let hops = desired.routes.iter().flat_map(|route| {
        let has = has.get(&route.destination).copied().unwrap_or_default();
        let missing = route.hops.iter().filter(move |hop| !is_among(has, hop));
        missing.map(|hop| hop.interface.as_str())
    });
    let missing: BTreeSet<_> = rules.chain(hops).collect();
    (!missing.is_empty()).then_some(missing)
}

fn by_destination(state: &ForwardingState) -> BTreeMap<Ipv4Addr, &[RouteHop]> {
    let routes = state.routes.iter();
    let hops = routes.map(|route| (route.destination, route.hops.as_slice()));
    hops.collect()
}

/// A kernel that has lost one of several hops may weight the others in another way.
fn is_among(hops: &[RouteHop], hop: &RouteHop) -> bool {
    let is_it = |it: &RouteHop| (&it.interface, it.next_hop) == (&hop.interface, hop.next_hop);
    hops.iter().any(is_it)
}

/// The link of an interface: its circuit, its port without one, or its cable.
fn place(world: &World<'_>, state: &State, node: NodeId, interface: &str) -> String {
    let fabric = world.fabric();
    let mut fibres = fabric.fibres();
    let fibre = fibres.find(|it| it.node == node && it.interface == interface);
    let Some(fibre) = fibre else {
        let cable = world.wiring.link_at(node, interface);
        let name = cable.map(|link| fabric.link_name(link));
        return name.unwrap_or_else(|| "its link is unknown".to_owned());
    };
    let (port, switch) = (fibre.port, &fabric.optical(fibre.optical).name);
    let circuits = state.in_force().circuits_of(fabric);
    let circuits = circuits.get(&fibre.optical);
    let mut circuits = circuits.into_iter().flat_map(CircuitSet::iter);
    match circuits.find(|circuit| circuit.ports().contains(&port)) {
        Some(circuit) => format!("circuit {circuit} of {switch}"),
        None => format!("port {port} of {switch} has no circuit"),
    }
}

#[cfg(test)]
mod tests {
    use reweave_common::forwarding_state::RouteRule;

    use super::*;

    fn holding(routes: &[(u8, &[&str])]) -> ForwardingState {
        let hop = |interface: &&str| RouteHop {
            interface: (*interface).to_owned(),
            next_hop: Ipv4Addr::new(10, 0, 0, 1),
            weight: 1,
        };
        let route = |(last, interfaces): &(u8, &[&str])| RouteRule {
            destination: Ipv4Addr::new(10, 255, 0, *last),
            hops: interfaces.iter().map(hop).collect(),
        };
        ForwardingState {
            rules: Vec::new(),
            routes: routes.iter().map(route).collect(),
        }
    }

    #[test]
    fn missing_routes_name_their_interfaces() {
        let desired = holding(&[(1, &["fab0", "fab1"]), (2, &["fab1"]), (3, &["fab0"])]);
        let missing = |held: &[(u8, &[&str])]| {
            missing_over(&holding(held), &desired).map(|it| it.into_iter().collect::<Vec<_>>())
        };
        let dropped: [(u8, &[&str]); 2] = [(1, &["fab0"]), (3, &["fab0"])];
        assert_eq!(missing(&dropped), Some(vec!["fab1"]));
        assert_eq!(missing(&[]), Some(vec!["fab0", "fab1"]));
        let other: [(u8, &[&str]); 2] = [(1, &["fab0"]), (3, &["fab2"])];
        assert_eq!(missing(&other), None, "no kernel adds a hop");
        let foreign: [(u8, &[&str]); 1] = [(9, &["fab0"])];
        assert_eq!(missing(&foreign), None, "nor a route");
    }
}
