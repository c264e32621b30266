//! Pins and routes together: installs the desired state, and reads the present one.

use reweave_agent_core::reconcile::{reconcile, usable};
use reweave_common::forwarding_state::ForwardingState;
use thiserror::Error;

use super::{Link, NetlinkError, PinError, RouteError, RouteSocket};

#[derive(Debug, Error)]
pub enum ForwardingStateError {
    #[error(transparent)]
    Pins(#[from] PinError),
    #[error(transparent)]
    Routes(#[from] RouteError),
    #[error("cannot read what the kernel holds")]
    Read(#[from] NetlinkError),
}

/// What the kernel holds, after it was looked at whether it holds what it should.
#[derive(Debug)]
pub struct EnforcedState {
    pub holding: ForwardingState,
    /// It did not, and was made to.
    pub mended: bool,
    /// A foreign route, in place of one of ours.
    pub in_the_way: Option<RouteError>,
}

impl RouteSocket {
    /// Makes the kernel hold this, and nothing else under our protocol number. Where something
    /// cannot be had, other things may have been changed already.
    pub fn hold_all(&mut self, desired: &ForwardingState) -> Result<(), ForwardingStateError> {
        self.hold_routes(&desired.routes)?;
        Ok(self.hold(&desired.rules)?)
    }

    pub fn holding(&mut self) -> Result<ForwardingState, NetlinkError> {
        let links = self.links()?;
        Ok(ForwardingState {
            rules: self.held(&links)?.pins(),
            routes: self.held_routes(&links)?.rules(),
        })
    }

    /// Repairs what has gone astray, as far as interfaces that are up and others allow.
    pub fn keep(
        &mut self,
        desired: &ForwardingState,
        links: &[Link],
    ) -> Result<EnforcedState, ForwardingStateError> {
        let (pins, routes) = (self.held(links)?, self.held_routes(links)?);
        let held = ForwardingState {
            rules: pins.pins(),
            routes: routes.rules(),
        };
        let is_up = |interface: &str| {
            let mut up = links.iter().filter(|link| link.count.up);
            up.any(|link| link.count.interface == interface)
        };
        let mut wanted = usable(desired, is_up, &held.routes);
        let in_the_way = routes.refuse_what_others_have(&wanted.routes).err();
        wanted
            .routes
            .retain(|it| !routes.is_anothers(it.destination));
        let same_pins = reconcile(&wanted.rules, &held.rules).is_empty();
        let same_routes = wanted.is_same_as(&ForwardingState {
            rules: wanted.rules.clone(),
            routes: held.routes.clone(),
        });
        if same_pins && same_routes && pins.is_tidy() && routes.is_tidy() {
            return Ok(EnforcedState {
                holding: held,
                mended: false,
                in_the_way,
            });
        }
        self.hold_all(&wanted)?;
        Ok(EnforcedState {
            holding: self.holding()?,
            mended: true,
            in_the_way,
        })
    }
}
