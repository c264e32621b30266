//! Pins by themselves: does each mean something, and all together only one thing?

use std::collections::BTreeMap;

use reweave_common::fabric::Fabric;
use reweave_common::flow::FlowKey;
use reweave_common::ids::LinkId;
use reweave_common::plan::Pin;

use crate::unsound::{NamedPin, PinFault};
use crate::{Network, Unsound};

/// The pins of one flow: those in force, and those that are planned.
#[derive(Debug, Default)]
pub(crate) struct FlowPins {
    pub(crate) in_force: Vec<Pin>,
    pub(crate) planned: Vec<Pin>,
}

/// Of every flow that has any. There may be as many pins as a plan may have entries.
pub(crate) fn by_flow([in_force, planned]: [&[Pin]; 2]) -> BTreeMap<FlowKey, FlowPins> {
    let mut flows: BTreeMap<FlowKey, FlowPins> = BTreeMap::new();
    for pin in in_force {
        flows.entry(pin.flow).or_default().in_force.push(*pin);
    }
    for pin in planned {
        flows.entry(pin.flow).or_default().planned.push(*pin);
    }
    flows
}

/// What is wrong with the pins of one flow, wherever its packets go, before circuits move and after.
pub(crate) fn faults([network, after]: [&Network<'_>; 2], pins: &FlowPins) -> Vec<Unsound> {
    let bad = pins.planned.iter().filter_map(|pin| {
        // The destination comes last: a file without addresses is not to hide another fault.
        let fault = fault(network, pin)
            .or_else(|| goes_dark([network, after], &pins.in_force, pin))
            .or_else(|| leads_nowhere(network, pin))?;
        let pin = named(network, pin);
        Some(Unsound::BadPin { pin, fault })
    });
    bad.chain(conflicts(network, &pins.planned)).collect()
}

fn fault(network: &Network<'_>, pin: &Pin) -> Option<PinFault> {
    let fabric = network.fabric;
    if pin.at.index() >= fabric.nodes().len() {
        Some(PinFault::NoSuchNode)
    } else if pin.link.index() >= fabric.links().len() {
        Some(PinFault::NoSuchLink)
    } else if !fabric.node(pin.at).role.forwards() {
        Some(PinFault::ForwardsNothing)
    } else if !network.is_at(pin.at, pin.link) {
        Some(PinFault::LinkElsewhere)
    } else if network.down.contains(&pin.link) {
        Some(PinFault::LinkDown)
    } else {
        None
    }
}

fn leads_nowhere(network: &Network<'_>, pin: &Pin) -> Option<PinFault> {
    let is_known = network.addresses.contains_key(pin.flow.destination.ip());
    (!is_known).then_some(PinFault::NoSuchDestination)
}

/// A plan is not to blame for a pin in force whose fibre is dark already.
fn goes_dark([network, after]: [&Network<'_>; 2], in_force: &[Pin], pin: &Pin) -> Option<PinFault> {
    let is_dark_already = in_force.contains(pin) && !network.is_open(pin.link);
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
