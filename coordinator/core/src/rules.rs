//! From pins, which name links, to rules, which name interfaces and addresses.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::fabric::Fabric;
use reweave_common::flow::FlowKey;
use reweave_common::ids::NodeId;
use reweave_common::plan::Pin;
use reweave_common::sample::PinRule;
use reweave_common::snapshot::Hop;

use crate::model::Wiring;
use crate::reason::Reason;

/// All rules of every switch whose pins differ between the parent and the plan.
pub(crate) fn changed(
    parent: &[Pin],
    plan: &[Pin],
    fabric: &Fabric,
    wiring: &Wiring,
) -> Result<BTreeMap<NodeId, Vec<PinRule>>, Vec<Reason>> {
    let empty = |switch| (switch, Vec::new());
    let mut rules: BTreeMap<_, Vec<_>> = switches(parent, plan).into_iter().map(empty).collect();
    let mut unknown = Vec::new();
    for pin in plan {
        let Some(of_switch) = rules.get_mut(&pin.at) else {
            continue;
        };
        match rule(pin, fabric, wiring) {
            Ok(rule) => of_switch.push(rule),
            Err(reason) => unknown.push(reason),
        }
    }
    if unknown.is_empty() {
        Ok(rules)
    } else {
        Err(unknown)
    }
}

/// The switches at which pins differ between the parent and the plan.
pub(crate) fn switches(parent: &[Pin], plan: &[Pin]) -> BTreeSet<NodeId> {
    difference(parent, plan).map(|pin| pin.at).collect()
}

/// The flows whose pins differ between the parent and the plan.
pub(crate) fn rerouted(parent: &[Pin], plan: &[Pin]) -> BTreeSet<FlowKey> {
    difference(parent, plan).map(|pin| pin.flow).collect()
}

fn difference<'p>(parent: &'p [Pin], plan: &'p [Pin]) -> impl Iterator<Item = &'p Pin> {
    let gone = parent.iter().filter(|pin| !plan.contains(pin));
    gone.chain(plan.iter().filter(|pin| !parent.contains(pin)))
}

fn rule(pin: &Pin, fabric: &Fabric, wiring: &Wiring) -> Result<PinRule, Reason> {
    let far = fabric.link(pin.link).far(pin.at).node;
    let end = |from| {
        let end = wiring.end(Hop {
            from,
            link: pin.link,
        });
        end.ok_or(Reason::UnknownPort {
            at: from,
            link: pin.link,
        })
    };
    let (near, far) = (end(pin.at)?, end(far)?);
    Ok(PinRule {
        flow: pin.flow,
        interface: near.interface.clone(),
        next_hop: far.address,
    })
}
