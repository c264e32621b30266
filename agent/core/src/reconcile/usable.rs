//! The part of the desired state that can be installed while interfaces are down.

use std::net::Ipv4Addr;

use reweave_common::forwarding_state::{ForwardingState, RouteHop, RouteRule};
use reweave_common::sample::PinRule;

/// What is desired, less what would lead packets into an interface that is down. A route all whose
/// ways are down stays as it is: none is better, and they may come up again.
pub fn usable(
    desired: &ForwardingState,
    is_up: impl Fn(&str) -> bool,
    held: &[RouteRule],
) -> ForwardingState {
    let usable_route = |route: &RouteRule| {
        let ways = route.hops.iter().filter(|hop| is_up(&hop.interface));
        let hops: Vec<RouteHop> = ways.cloned().collect();
        if hops.is_empty() {
            return held_to(held, route.destination);
        }
        let destination = route.destination;
        Some(RouteRule { destination, hops })
    };
    let pins = desired.rules.iter().filter(|pin| is_up(&pin.interface));
    let pins: Vec<PinRule> = pins.cloned().collect();
    ForwardingState {
        rules: pins,
        routes: desired.routes.iter().filter_map(usable_route).collect(),
    }
}

fn held_to(held: &[RouteRule], destination: Ipv4Addr) -> Option<RouteRule> {
    let mut held = held.iter();
    held.find(|route| route.destination == destination).cloned()
}
