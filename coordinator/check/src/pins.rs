//! Pins by themselves: does each mean something, and all together only one thing?

use std::collections::BTreeMap;

use reweave_common::fabric::Fabric;
use reweave_common::ids::LinkId;
use reweave_common::plan::Pin;

use crate::unsound::{NamedPin, PinFault};
use crate::{Network, Unsound};

/// What is wrong with the pins of one flow, wherever its packets go, before circuits move and after.
pub(crate) fn faults([network, after]: [&Network<'_>; 2], pins: &[Pin]) -> Vec<Unsound> {
    let bad = pins.iter().filter_map(|pin| {
        let fault = fault(network, pin).or_else(|| goes_dark([network, after], pin))?;
        let pin = named(network, pin);
        Some(Unsound::BadPin { pin, fault })
    });
    bad.chain(conflicts(network, pins)).collect()
}

fn fault(network: &Network<'_>, pin: &Pin) -> Option<PinFault> {
    let fabric = network.fabric;
    if pin.at.index() >= fabric.nodes().len() {
        Some(PinFault::NoSuchNode)
    } else if pin.link.index() >= fabric.links().len() {
        Some(PinFault::NoSuchLink)
    } else if !fabric.node(pin.at).role.forwards() {
        Some(PinFault::ForwardsNothing)
    } else if !fabric.links_of(pin.at).contains(&pin.link) {
        Some(PinFault::LinkElsewhere)
    } else if network.down.contains(&pin.link) {
        Some(PinFault::LinkDown)
    } else if !network.addresses.contains_key(pin.flow.destination.ip()) {
        Some(PinFault::NoSuchDestination)
    } else {
        None
    }
}

/// A plan is not to blame for a pin in force whose fibre is dark already.
fn goes_dark([network, after]: [&Network<'_>; 2], pin: &Pin) -> Option<PinFault> {
    let is_dark_already = network.pins.contains(pin) && !network.is_open(pin.link);
    let goes_dark = !after.is_open(pin.link) && !is_dark_already;
    goes_dark.then_some(PinFault::Dark)
}

/// Second pins of the flow at one switch.
fn conflicts(network: &Network<'_>, pins: &[Pin]) -> Vec<Unsound> {
    let mut first = BTreeMap::new();
    let conflict = |pin: &Pin| {
        let other = first.insert(pin.at, *pin)?;
        let (pin, other) = (named(network, &other), named(network, pin).link);
        Some(Unsound::Conflict { pin, other })
    };
    pins.iter().filter_map(conflict).collect()
}

/// By number what the fabric does not have.
pub(crate) fn named(network: &Network<'_>, pin: &Pin) -> NamedPin {
    let (fabric, Pin { flow, at, link }) = (network.fabric, *pin);
    let has_node = at.index() < fabric.nodes().len();
    NamedPin {
        flow,
        switch: if has_node {
            fabric.name(at).to_owned()
        } else {
            format!("node {at}")
        },
        link: link_name(fabric, link),
    }
}

pub(crate) fn link_name(fabric: &Fabric, link: LinkId) -> String {
    if link.index() < fabric.links().len() {
        fabric.link_name(link)
    } else {
        link.to_string()
    }
}
