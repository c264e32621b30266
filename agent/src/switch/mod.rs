//! Installs a switch's routes: in the kernel, or through the software that the switch's hardware follows. The kernel
//! is read in both cases. Pins are always the kernel's own.

mod difference;
mod error;
mod vendors;

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use reweave_agent_core::reconcile::usable;
use reweave_agent_core::switch::joined;
use reweave_common::error::error_chain;
use reweave_common::forwarding_state::{ForwardingState, RouteRule};
use reweave_common::hardware::Lack;
use reweave_common::moment::Moment;

use crate::clock;
use crate::netlink::{EnforcedState, Link, RouteSocket, down_interfaces};

pub use difference::Difference;
pub use error::{RedisError, SwitchError, VtyshError};
pub use vendors::{RedisAddress, RoutesBy, Software};
use vendors::{RoutePush, Vendor};

/// Software takes a route at once and hands it to the kernel a little later.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(1);
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Its configuration is read that often even while the kernel holds what it should.
const CONFIG_CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// What it would not do at once is not asked of it at every sample.
const REPAIR_INTERVAL: Duration = Duration::from_secs(1);

/// The name of this measurement where it is reported as off.
const MEASUREMENT_NAME: &str = "routes by the switch's software";

const NO_PINS_REASON: &str = "forwards in hardware that does not follow pins";
const NO_WEIGHTS_REASON: &str = "takes routes without weights only";
const LIMIT_REMEDY: &str = "none: plans do without it there; see docs/switches.md";

/// A switch with the software that installs its routes.
pub struct Switch {
    /// None where the agent installs routes itself.
    vendor: Option<Box<dyn Vendor>>,
    /// When the configuration was last read.
    looked: Option<Moment>,
    trouble: Option<SwitchError>,
}

impl Switch {
    pub fn new(software: &Software) -> Self {
        Self {
            vendor: software.vendor(),
            looked: None,
            trouble: None,
        }
    }

    /// Makes the kernel hold this, and nothing else of ours. Where something cannot be had, other things may
    /// have been changed already.
    pub fn hold_all(
        &mut self,
        kernel: &mut RouteSocket,
        desired: &ForwardingState,
    ) -> Result<(), SwitchError> {
        self.hold_part(kernel, desired, desired)
    }

    /// The same as far as interfaces that are up allow: pins and hops over others are left out, and [`Self::keep`]
    /// installs them later. Gives the interfaces of what was left out.
    pub fn hold_usable(
        &mut self,
        kernel: &mut RouteSocket,
        desired: &ForwardingState,
    ) -> Result<BTreeSet<String>, SwitchError> {
        let mut down = down_interfaces(&kernel.links()?);
        loop {
            let held = kernel.holding()?.routes;
            let usable = usable(desired, |it| !down.contains(it), &held);
            let error = match self.hold_part(kernel, desired, &usable) {
                Ok(()) => return Ok(usable.left_out_of(desired).unwrap_or_default()),
                Err(error) => error,
            };
            // More may have gone down since they were listed.
            let later = down_interfaces(&kernel.links()?);
            if later.is_subset(&down) {
                return Err(error);
            }
            down.extend(later);
        }
    }

    /// Software gets the whole: it leaves out by itself what is down. The kernel gets the part.
    fn hold_part(
        &mut self,
        kernel: &mut RouteSocket,
        whole: &ForwardingState,
        part: &ForwardingState,
    ) -> Result<(), SwitchError> {
        let Some(vendor) = self.vendor.as_deref() else {
            return Ok(kernel.hold_all(part)?);
        };
        self.refuse_pins(whole)?;
        kernel.refuse_impossible(&part.routes)?;
        let routes = whole.clone().in_order().routes;
        let outcome = apply_in_steps(vendor, kernel, &routes, true)?;
        settle(kernel, &outcome.before, &routes)?;
        // These routes are of an agent that held routes by itself. Their replacements are in place.
        Ok(kernel.hold_all(&ForwardingState::of_pins(part.rules.clone()))?)
    }

    /// What the kernel holds of ours.
    pub fn holding(&mut self, kernel: &mut RouteSocket) -> Result<ForwardingState, SwitchError> {
        let mut held = kernel.holding()?;
        if let Some(vendor) = &self.vendor {
            let configured = vendor.configured()?;
            let links = kernel.links()?;
            held.routes
                .extend(those_to(&configured, kernel.static_routes(&links)?));
        }
        Ok(held)
    }

    /// Repairs what has gone astray, as far as interfaces that are up allow.
    pub fn keep(
        &mut self,
        kernel: &mut RouteSocket,
        desired: &ForwardingState,
        links: &[Link],
    ) -> Result<EnforcedState, SwitchError> {
        if self.vendor.is_none() {
            return Ok(kernel.keep(desired, links)?);
        }
        let outcome = self.keep_routes(kernel, &desired.routes, links)?;
        let pins = ForwardingState::of_pins(desired.rules.clone());
        let mut kept = kernel.keep(&pins, links)?;
        kept.holding.routes = those_to(&desired.routes, kernel.static_routes(links)?);
        kept.mended |= outcome;
        Ok(kept)
    }

    /// Why the software could not be given its desired configuration, when that was last tried. The kernel goes on
    /// meanwhile with what it has.
    pub fn lack(&self) -> Option<Lack> {
        Some(Lack {
            measurement: MEASUREMENT_NAME.to_owned(),
            because: error_chain(self.trouble.as_ref()?),
            remedy: self.vendor.as_ref()?.remedy().to_owned(),
        })
    }

    /// What this software never holds, so that no plan asks for it.
    pub fn limits(&self) -> Vec<Lack> {
        let Some(vendor) = self.vendor.as_deref() else {
            return Vec::new();
        };
        let limit = |measurement: &str, because: &str| Lack {
            measurement: measurement.to_owned(),
            because: format!("{} {because}", vendor.name()),
            remedy: LIMIT_REMEDY.to_owned(),
        };
        let pins = (!vendor.follows_pins()).then(|| limit(Lack::HARDWARE_PINS, NO_PINS_REASON));
        let weights = limit(Lack::WEIGHTS, NO_WEIGHTS_REASON);
        pins.into_iter().chain([weights]).collect()
    }

    /// Changes the state from `before` to the desired one. Restores the earlier state where the change fails.
    pub fn change(
        &mut self,
        kernel: &mut RouteSocket,
        before: &ForwardingState,
        desired: &ForwardingState,
    ) -> Result<ForwardingState, SwitchError> {
        let held = self.hold_all(kernel, desired);
        let held = held.and_then(|()| self.holding(kernel));
        let failure = match held {
            Ok(held) if held.is_same_as(desired) => return Ok(held.in_order()),
            Ok(held) => SwitchError::Elsewhere {
                difference: Difference::between(desired, &held),
            },
            Err(error) => error,
        };
        match self.hold_all(kernel, before) {
            Ok(()) => Err(failure),
            Err(source) => Err(SwitchError::NoWayBack {
                failure: Box::new(failure),
                source: Box::new(source),
            }),
        }
    }

    /// What it would be sent if it should hold this, in its own words; sends nothing.
    pub fn words_to(&self, desired: &ForwardingState) -> Result<Vec<String>, SwitchError> {
        self.refuse_pins(desired)?;
        match &self.vendor {
            Some(vendor) => vendor.words_to(&desired.routes),
            None => Ok(vec![]),
        }
    }

    /// Whether anything was sent to it. What is configured stays whole while interfaces are down: the software leaves
    /// them out by itself, and comes back to them.
    fn keep_routes(
        &mut self,
        kernel: &mut RouteSocket,
        desired: &[RouteRule],
        links: &[Link],
    ) -> Result<bool, SwitchError> {
        let Some(vendor) = self.vendor.as_deref() else {
            return Ok(false);
        };
        let held = those_to(desired, kernel.static_routes(links)?);
        let is_up = |interface: &str| {
            let mut up = links.iter().filter(|link| link.count.up);
            up.any(|link| link.count.interface == interface)
        };
        let wanted = usable(&of_routes(desired), is_up, &held);
        let is_well = self.trouble.is_none() && wanted.is_same_as(&of_routes(&held));
        let period = if is_well {
            CONFIG_CHECK_INTERVAL
        } else {
            REPAIR_INTERVAL
        };
        let now = clock::now();
        if !clock::is_due(self.looked, now, period) {
            return Ok(false);
        }
        self.looked = Some(now);
        let outcome = apply_in_steps(vendor, kernel, desired, false);
        let (anything, trouble) = match outcome {
            Ok(outcome) => (outcome.anything, None),
            Err(error) => (false, Some(error)),
        };
        self.trouble = trouble;
        Ok(anything)
    }

    fn refuse_pins(&self, desired: &ForwardingState) -> Result<(), SwitchError> {
        let is_blind = self.vendor.as_ref().is_some_and(|it| !it.follows_pins());
        if is_blind && !desired.rules.is_empty() {
            return Err(SwitchError::NoPins);
        }
        Ok(())
    }
}

/// Where software takes away what should go before it adds what comes, routes that change get their new ways beside
/// their old ones first. Where that does not come about though it must, nothing goes.
fn apply_in_steps(
    vendor: &dyn Vendor,
    kernel: &mut RouteSocket,
    desired: &[RouteRule],
    must_settle: bool,
) -> Result<RoutePush, SwitchError> {
    if !vendor.removes_first() {
        return vendor.tell(desired);
    }
    let before = vendor.configured()?;
    let both = joined(&before, desired);
    let mut anything = false;
    if both != desired && vendor.tell(&both)?.anything {
        anything = true;
        match settle(kernel, &[], &both) {
            Err(SwitchError::NotInTheKernel { .. }) if !must_settle => {}
            settled => settled?,
        }
    }
    anything |= vendor.tell(desired)?.anything;
    Ok(RoutePush { before, anything })
}

/// The rules of what leads to the same hosts.
fn those_to(like: &[RouteRule], mut routes: Vec<RouteRule>) -> Vec<RouteRule> {
    let hosts: BTreeSet<_> = like.iter().map(|it| it.destination).collect();
    routes.retain(|route| hosts.contains(&route.destination));
    routes
}

fn of_routes(routes: &[RouteRule]) -> ForwardingState {
    ForwardingState {
        rules: vec![],
        routes: routes.to_vec(),
    }
}

/// Until the kernel holds what it should as far as interfaces are up, and what was there before and is not desired is
/// gone. Patience is with one that stands still.
fn settle(
    kernel: &mut RouteSocket,
    before: &[RouteRule],
    desired: &[RouteRule],
) -> Result<(), SwitchError> {
    let (mut deadline, mut least) = (Instant::now() + SETTLE_TIMEOUT, usize::MAX);
    let desired = of_routes(desired);
    loop {
        let links = kernel.links()?;
        let down = down_interfaces(&links);
        let usable = usable(&desired, |it| !down.contains(it), &[]);
        let desired: BTreeSet<_> = usable.routes.iter().collect();
        let gone: BTreeSet<_> = before.iter().filter(|it| !desired.contains(it)).collect();
        let held = kernel.static_routes(&links)?;
        let held: BTreeSet<_> = held.iter().collect();
        let missing = desired.difference(&held);
        let unsettled: Vec<_> = missing.chain(gone.intersection(&held)).collect();
        let Some(first) = unsettled.first() else {
            return Ok(());
        };
        if unsettled.len() < least {
            (deadline, least) = (Instant::now() + SETTLE_TIMEOUT, unsettled.len());
        }
        if Instant::now() >= deadline {
            return Err(SwitchError::NotInTheKernel {
                destination: first.destination,
                patience: SETTLE_TIMEOUT,
            });
        }
        thread::sleep(POLL_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(routes_by: RoutesBy) -> Vec<String> {
        let software = Software {
            routes_by,
            ..Software::default()
        };
        let limits = Switch::new(&software).limits().into_iter();
        limits.map(|it| it.measurement).collect()
    }

    #[test]
    fn software_reports_what_it_never_holds() {
        assert_eq!(limits(RoutesBy::Kernel), [""; 0]);
        assert_eq!(limits(RoutesBy::Frr), [Lack::WEIGHTS]);
        assert_eq!(
            limits(RoutesBy::Sonic),
            [Lack::HARDWARE_PINS, Lack::WEIGHTS]
        );
    }
}
