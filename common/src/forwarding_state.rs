//! Reweave's entries on a node: pins of single flows, and routes to whole hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::sample::PinRule;

/// The complete state: entries that are not listed are removed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForwardingState {
    pub rules: Vec<PinRule>,
    pub routes: Vec<RouteRule>,
}

/// Traffic for this host is forwarded over these hops by weight.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RouteRule {
    /// Stable address of a host, which belongs to none of its links.
    pub destination: Ipv4Addr,
    pub hops: Vec<RouteHop>,
}

/// A next hop on the link of this interface, independent of the interface's own addresses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RouteHop {
    #[serde(deserialize_with = "crate::printable::text")]
    pub interface: String,
    pub next_hop: Ipv4Addr,
    pub weight: u32,
}

impl ForwardingState {
    pub fn of_pins(rules: Vec<PinRule>) -> Self {
        Self {
            rules,
            routes: Vec::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.routes.is_empty()
    }

    /// Returns the number of rules and routes.
    pub fn len(&self) -> usize {
        self.rules.len() + self.routes.len()
    }

    /// Sorts the entries and removes duplicates: kernels list them in an order of their own.
    pub fn in_order(mut self) -> Self {
        for route in &mut self.routes {
            route.hops.sort_unstable();
            route.hops.dedup();
        }
        self.rules.sort_unstable();
        self.rules.dedup();
        self.routes.sort_unstable();
        self.routes.dedup();
        self
    }

    pub fn is_same_as(&self, other: &Self) -> bool {
        self.clone().in_order() == other.clone().in_order()
    }

    /// The interfaces over which this state lacks pins and hops of the other. None if the states differ otherwise, too.
    pub fn left_out_of(&self, whole: &Self) -> Option<BTreeSet<String>> {
        let (held, whole) = (self.clone().in_order(), whole.clone().in_order());
        let is_surplus = |pin: &PinRule| whole.rules.binary_search(pin).is_err();
        if held.rules.iter().any(is_surplus) {
            return None;
        }
        let missing = whole.rules.iter();
        let missing = missing.filter(|pin| held.rules.binary_search(pin).is_err());
        let mut left_out: BTreeSet<_> = missing.map(|pin| pin.interface.clone()).collect();
        let count = held.routes.len();
        let mut routes: BTreeMap<_, _> = held
            .routes
            .into_iter()
            .map(|route| (route.destination, route.hops))
            .collect();
        let is_single = routes.len() == count;
        for RouteRule { destination, hops } in whole.routes {
            let kept = routes.remove(&destination).unwrap_or_default();
            let differs = hops.is_empty() || kept.iter().any(|hop| !hops.contains(hop));
            if differs {
                return None;
            }
            let missing = hops.into_iter().filter(|hop| !kept.contains(hop));
            left_out.extend(missing.map(|hop| hop.interface));
        }
        (is_single && routes.is_empty()).then_some(left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(last: u8, hops: &[(&str, u32)]) -> RouteRule {
        let hop = |&(interface, weight): &(&str, u32)| RouteHop {
            interface: interface.to_owned(),
            next_hop: Ipv4Addr::new(10, 0, 0, 1),
            weight,
        };
        RouteRule {
            destination: Ipv4Addr::new(10, 255, 0, last),
            hops: hops.iter().map(hop).collect(),
        }
    }

    #[test]
    fn holdings_ignore_order_but_compare_weights() {
        let holding = |routes| ForwardingState {
            rules: Vec::new(),
            routes,
        };
        let report = holding(vec![route(1, &[("a", 1), ("b", 2)]), route(2, &[("a", 1)])]);
        let held = holding(vec![route(2, &[("a", 1)]), route(1, &[("b", 2), ("a", 1)])]);
        assert!(held.is_same_as(&report));
        let other = holding(vec![route(2, &[("a", 1)]), route(1, &[("b", 1), ("a", 1)])]);
        assert!(!other.is_same_as(&report));
    }

    #[test]
    fn left_out_hops_name_their_interfaces() {
        let holding = |routes| ForwardingState {
            rules: Vec::new(),
            routes,
        };
        let whole = holding(vec![route(1, &[("a", 1), ("b", 1)]), route(2, &[("b", 1)])]);
        let left_out = |routes| {
            let left_out = holding(routes).left_out_of(&whole)?;
            let left_out: Vec<_> = left_out.into_iter().collect();
            Some(left_out.join(" "))
        };
        let said = |words: &str| Some(words.to_owned());
        assert_eq!(left_out(whole.routes.clone()), said(""));
        assert_eq!(left_out(vec![route(1, &[("a", 1)])]), said("b"));
        assert_eq!(left_out(vec![]), said("a b"));
        // Another weight, another way, and another destination.
        assert_eq!(left_out(vec![route(1, &[("a", 2)])]), None);
        assert_eq!(left_out(vec![route(2, &[("a", 1)])]), None);
        assert_eq!(left_out(vec![route(3, &[("a", 1)])]), None);
    }
}
