//! Routes in the format of switch software: which ones are the agent's, and the commands that install other routes
//! without ever withdrawing one that stays.

pub mod frr;
pub mod sonic;

use std::fmt;
use std::net::Ipv4Addr;

use reweave_common::forwarding_state::{RouteHop, RouteRule};

/// Why a switch's own software cannot have these routes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unfit {
    /// It spreads evenly, regardless of weights.
    Weight { destination: Ipv4Addr, weight: u32 },
    /// Its language knows no such name.
    Name { interface: String },
    NotOurs {
        destination: Ipv4Addr,
        as_it_stands: String,
    },
}

impl std::error::Error for Unfit {}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Weight {
                destination,
                weight,
            } => write!(
                f,
                "it supports only routes without weights, but the one to {destination} has a hop \
                 of weight {weight}"
            ),
            Self::Name { interface } => write!(
                f,
                "{interface:?} is not a valid interface name \
                for it"
            ),
            Self::NotOurs {
                destination,
                as_it_stands,
            } => write!(f, "a foreign route to {destination} exists: {as_it_stands}"),
        }
    }
}

/// Names go into a line that is read word by word, and into lists divided by commas. SONiC takes no others.
fn is_plain(name: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    name.starts_with(|it: char| it.is_ascii_alphabetic())
        && name.len() < 16
        && name.chars().all(plain)
}

/// What to have first on the way from one table to another, where it takes two steps never to be without a
/// way: routes that change have their old ways and their new ones.
pub fn joined(before: &[RouteRule], desired: &[RouteRule]) -> Vec<RouteRule> {
    let join = |rule: &RouteRule| {
        let old = before.iter().find(|it| it.destination == rule.destination);
        let old = old.map_or(&[][..], |it| it.hops.as_slice());
        let mut hops = [old, &rule.hops].concat();
        hops.sort_unstable();
        hops.dedup();
        let destination = rule.destination;
        RouteRule { destination, hops }
    };
    desired.iter().map(join).collect()
}

fn refuse_unfit(desired: &[RouteRule]) -> Result<(), Unfit> {
    for RouteRule { destination, hops } in desired {
        if let Some(RouteHop { weight, .. }) = hops.iter().find(|hop| hop.weight != 1) {
            return Err(Unfit::Weight {
                destination: *destination,
                weight: *weight,
            });
        }
        if let Some(hop) = hops.iter().find(|hop| !is_plain(&hop.interface)) {
            let interface = hop.interface.clone();
            return Err(Unfit::Name { interface });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::examples::rule;
    use super::*;

    #[test]
    fn changed_routes_join_old_and_new() {
        let before = [rule(1, &[0]), rule(2, &[1]), rule(3, &[0])];
        let after = [rule(1, &[1]), rule(2, &[1]), rule(4, &[2])];
        let expected = [rule(1, &[0, 1]), rule(2, &[1]), rule(4, &[2])];
        assert_eq!(joined(&before, &after), expected);
    }
}

#[cfg(test)]
mod examples {
    use proptest::prelude::*;

    use super::*;

    pub(super) fn hop(spine: u8) -> RouteHop {
        RouteHop {
            interface: format!("up{spine}"),
            next_hop: Ipv4Addr::new(172, 16, spine, 1),
            weight: 1,
        }
    }

    pub(super) fn host(last: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 9, 0, last)
    }

    pub(super) fn rule(last: u8, spines: &[u8]) -> RouteRule {
        RouteRule {
            destination: host(last),
            hops: spines.iter().copied().map(hop).collect(),
        }
    }

    /// Generates no rule, one path or several for each of a few hosts.
    pub(super) fn rules() -> impl Strategy<Value = Vec<RouteRule>> {
        let ways = proptest::sample::subsequence(vec![0_u8, 1, 2], 1..=3);
        let choices = proptest::collection::btree_map(1_u8..6, ways, 0..5);
        choices.prop_map(|all| all.iter().map(|(host, ways)| rule(*host, ways)).collect())
    }
}
