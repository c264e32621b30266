//! The entries to add and to remove.

use std::fmt;

use reweave_common::forwarding_state::{ForwardingState, RouteRule};
use reweave_common::sample::PinRule;
use serde::Serialize;

/// The difference between two states.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    comes: ForwardingState,
    goes: ForwardingState,
}

impl Difference {
    pub fn between(held: &ForwardingState, desired: &ForwardingState) -> Self {
        let (held, desired) = (held.clone().in_order(), desired.clone().in_order());
        Self {
            comes: without(&desired, &held),
            goes: without(&held, &desired),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.comes.is_empty() && self.goes.is_empty()
    }

    /// Shows the additions only, one in each line.
    pub fn bare(&self) -> impl fmt::Display {
        lines("", &self.comes)
    }
}

fn without(all: &ForwardingState, these: &ForwardingState) -> ForwardingState {
    let mut rest = all.clone();
    rest.rules.retain(|it| !these.rules.contains(it));
    rest.routes.retain(|it| !these.routes.contains(it));
    rest
}

fn lines(sign: &str, holding: &ForwardingState) -> String {
    let pins = holding.rules.iter().map(pin);
    let lines = pins.chain(holding.routes.iter().map(route));
    lines.map(|line| format!("{sign}{line}\n")).collect()
}

fn pin(
    PinRule {
        flow,
        interface,
        next_hop,
    }: &PinRule,
) -> String {
    format!("{flow} by {next_hop} over {interface}")
}

fn route(RouteRule { destination, hops }: &RouteRule) -> String {
    let hops = hops.iter().map(|hop| {
        let (next_hop, interface, weight) = (hop.next_hop, &hop.interface, hop.weight);
        format!("by {next_hop} over {interface} weight {weight}")
    });
    let hops: Vec<_> = hops.collect();
    format!("to {destination} {}", hops.join(", "))
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&lines("- ", &self.goes))?;
        f.write_str(&lines("+ ", &self.comes))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use reweave_common::forwarding_state::RouteHop;

    use super::*;

    #[test]
    fn difference_prints_one_line_each() {
        let holding = |spine: u8| ForwardingState {
            rules: vec![],
            routes: vec![RouteRule {
                destination: Ipv4Addr::new(10, 9, 0, 1),
                hops: vec![RouteHop {
                    interface: format!("up{spine}"),
                    next_hop: Ipv4Addr::new(172, 16, spine, 1),
                    weight: 1,
                }],
            }],
        };
        let difference = Difference::between(&holding(0), &holding(1));
        let expected = "- to 10.9.0.1 by 172.16.0.1 over up0 weight 1\n\
                        + to 10.9.0.1 by 172.16.1.1 over up1 weight 1\n";
        assert_eq!(difference.to_string(), expected);
        assert!(Difference::between(&holding(0), &holding(0)).is_empty());
    }
}
