//! Pins and routes together: what the kernel is told to hold, and what it holds.

use std::net::Ipv4Addr;

use reweave_agent_core::reconcile::reconcile;
use reweave_common::holding::{Holding, RouteHop, RouteRule};
use reweave_common::sample::PinRule;
use thiserror::Error;

use super::{Link, NetlinkError, PinError, RouteError, RouteSocket};

#[derive(Debug, Error)]
pub enum HoldError {
    #[error(transparent)]
    Pins(#[from] PinError),
    #[error(transparent)]
    Routes(#[from] RouteError),
    #[error("cannot read what the kernel holds")]
    Read(#[from] NetlinkError),
}

/// What the kernel holds, after it was looked at whether it holds what it shall.
#[derive(Debug)]
pub struct Kept {
    pub holding: Holding,
    /// It did not, and was made to.
    pub mended: bool,
}

impl RouteSocket {
    /// Makes the kernel hold this, and nothing else under our protocol number. Where something
    /// cannot be had, other things may have been changed already.
    pub fn hold_all(&mut self, desired: &Holding) -> Result<(), HoldError> {
        self.hold_routes(&desired.routes)?;
        Ok(self.hold(&desired.rules)?)
    }

    pub fn holding(&mut self) -> Result<Holding, NetlinkError> {
        let links = self.links()?;
        Ok(Holding {
            rules: self.held(&links)?.pins(),
            routes: self.held_routes(&links)?.rules(),
        })
    }

    /// Mends what has gone astray, as far as interfaces that are up allow.
    pub fn keep(&mut self, desired: &Holding, links: &[Link]) -> Result<Kept, HoldError> {
        let (pins, routes) = (self.held(links)?, self.held_routes(links)?);
        let held = Holding {
            rules: pins.pins(),
            routes: routes.rules(),
        };
        let wanted = usable(desired, links, &held.routes);
        let same_pins = reconcile(&wanted.rules, &held.rules).is_empty();
        let same_routes = wanted.is_same_as(&Holding {
            rules: wanted.rules.clone(),
            routes: held.routes.clone(),
        });
        if same_pins && same_routes && pins.is_tidy() && routes.is_tidy() {
            return Ok(Kept {
                holding: held,
                mended: false,
            });
        }
        self.hold_all(&wanted)?;
        Ok(Kept {
            holding: self.holding()?,
            mended: true,
        })
    }
}

/// What is desired, less what would lead packets into an interface that is down. A route all whose
/// ways are down stays as it is: none is better, and they may come up again.
pub fn usable(desired: &Holding, links: &[Link], held: &[RouteRule]) -> Holding {
    let is_up = |interface: &str| {
        let mut up = links.iter().filter(|link| link.count.up);
        up.any(|link| link.count.interface == interface)
    };
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
    Holding {
        rules: pins,
        routes: desired.routes.iter().filter_map(usable_route).collect(),
    }
}

fn held_to(held: &[RouteRule], destination: Ipv4Addr) -> Option<RouteRule> {
    let mut held = held.iter();
    held.find(|route| route.destination == destination).cloned()
}
