//! The independent judge of a plan: may it be applied, in any order of its switches? And of the migration by which
//! tables and circuits are changed: may this step follow on the last?
//!
//! It shares no code with the planner, not even the routes, so that a mistake there does not approve itself here. It
//! never searches, and never repairs: it says what is wrong and where.
//!
//! For every flow that is pinned before or after, the ways of its packets before and after the plan
//! are laid over each other. A switch that has followed the plan and one that has not may then meet
//! in any mixture. If nothing circles in the union, nothing circles in any mixture; where each node
//! has one next hop the reverse holds too. Flows without pins go as before, downhill.
//!
//! Loads are judged by measured rates, of plans that pin flows, and only where they do clear harm: a rate that was
//! measured is what a flow got, not what it would send. The rule and its reasons stand in `loads`. What becomes of
//! rates is predicted with the plan, and measured after it.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use reweave_common::fabric::{Circuits, Crossing, Fabric};
use reweave_common::flow::FlowKey;
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::migration_plan::Tables;
use reweave_common::plan::{Generation, Pin, Plan};
use reweave_common::snapshot::{FlowState, Hop, LinkState};

use crate::mesh::Ground;
use crate::ways::FlowTarget;

mod buffers;
mod circuits;
mod claims;
mod columns;
mod leaves;
mod loads;
mod mesh;
mod migration;
mod pins;
#[cfg(test)]
mod tests;
mod touched;
mod unsound;
mod ways;

pub use claims::claims;
pub use migration::{MigrationCheck, check_migration, check_step, judge_steps};
pub use touched::{Sent, Touch, Touches};
pub use unsound::{NamedPin, Overload, PinFault, Trouble, Unsound};

/// The network a plan is judged against, as it is now.
#[derive(Debug, Clone, Copy)]
pub struct Network<'a> {
    pub fabric: &'a Fabric,
    /// Which node has which address.
    pub addresses: &'a BTreeMap<Ipv4Addr, NodeId>,
    /// The links of the NICs that have these addresses by what hosts report. The fabric's file says the others.
    pub nics: &'a BTreeMap<Ipv4Addr, LinkId>,
    pub down: &'a BTreeSet<LinkId>,
    /// The generation in force, and its pins.
    pub generation: Generation,
    pub pins: &'a [Pin],
    pub tables: &'a Tables,
    /// Nodes that may hold these already in place of the tables in force.
    pub unsure: &'a Tables,
    /// Of every optical switch.
    pub circuits: &'a Circuits,
    /// The share of its capacity that every node keeps while circuits move.
    pub floor: f64,
    /// Nothing is dropped: who has no room makes the one before it wait.
    pub is_lossless: bool,
    /// Flows that were sending lately, as they were measured. Others count as nothing.
    pub flows: &'a [FlowState],
    /// What counters show that directions of links carry, as far as that is known.
    pub link_loads: &'a BTreeMap<Hop, LinkState>,
}

impl<'a> Network<'a> {
    /// As the fabric's file has it: without tables and pins, and with all links up.
    pub fn untouched(fabric: &'a Fabric) -> Self {
        static NO_ADDRESSES: BTreeMap<Ipv4Addr, NodeId> = BTreeMap::new();
        static NO_NICS: BTreeMap<Ipv4Addr, LinkId> = BTreeMap::new();
        static NO_LINKS_DOWN: BTreeSet<LinkId> = BTreeSet::new();
        static NO_TABLES: Tables = Tables::new();
        static NO_LOADS: BTreeMap<Hop, LinkState> = BTreeMap::new();
        Self {
            fabric,
            addresses: &NO_ADDRESSES,
            nics: &NO_NICS,
            down: &NO_LINKS_DOWN,
            generation: Generation(0),
            pins: &[],
            tables: &NO_TABLES,
            unsure: &NO_TABLES,
            circuits: fabric.first_circuits(),
            floor: 0.0,
            is_lossless: false,
            flows: &[],
            link_loads: &NO_LOADS,
        }
    }
}

impl Network<'_> {
    /// Whether packets pass this link.
    fn is_open(&self, link: LinkId) -> bool {
        let is_lit = |Crossing { optical, circuit }: Crossing| {
            let set = self.circuits.get(&optical);
            set.is_some_and(|set| set.contains(circuit))
        };
        let there = link.index() < self.fabric.links().len() && !self.down.contains(&link);
        there && self.fabric.crossing(link).is_none_or(is_lit)
    }

    /// The link over which packets for this address reach their host, where it is a NIC's address. A report counts more
    /// than the fabric's file, which may be older than the cables: routes follow the address to where it is.
    fn nic_link(&self, address: Ipv4Addr) -> Option<LinkId> {
        let declared = || {
            let nic = self.fabric.nic_with(address)?;
            Some(self.fabric.nic(nic).link)
        };
        self.nics.get(&address).copied().or_else(declared)
    }

    /// Whether the link ends at this node. A node of many fibres has too many links to look for one among them.
    fn is_at(&self, node: NodeId, link: LinkId) -> bool {
        let there = link.index() < self.fabric.links().len();
        let ports = || self.fabric.link(link).ports();
        there && ports().iter().any(|port| port.node == node)
    }
}

/// Everything that speaks against the plan.
pub fn check(network: &Network<'_>, plan: &Plan) -> Result<(), Vec<Unsound>> {
    let mut found = generations(network, plan);
    let circuits = circuits_after(network, plan);
    let after = Network {
        circuits: &circuits,
        ..*network
    };
    let changed_hops = migration::changed_hops_by_plan(network, plan);
    let is_of_pins = changed_hops.is_empty() && circuits == *network.circuits;
    let kept = plan.kept_of(network.pins);
    // Pins that go are lifted before tables and circuits change, and pins that come are set after that.
    let pins = if is_of_pins { &plan.pins } else { &kept };
    found.extend(judge_flows([network, &after], pins));
    // Such an entry changes no way to the leaf itself, so a plan of nothing else counts as one of pins.
    found.extend(migration::led_away(network, &plan.tables));
    if !is_of_pins {
        found.extend(migration::at_rest([network, &after], plan, &changed_hops));
    }
    if found.is_empty() {
        found.extend(buffers::deadlock(network, &plan.tables, &plan.pins));
    }
    // Ways are followed by pins that lead somewhere.
    if found.is_empty() {
        let settled = Network {
            tables: &plan.tables,
            ..after
        };
        found.extend(loads::overloads([network, &settled], plan));
    }
    if found.is_empty() { Ok(()) } else { Err(found) }
}

/// Everything that speaks against nodes taking these pins next, in any order.
pub fn check_pins(network: &Network<'_>, pins: &[Pin]) -> Result<(), Vec<Unsound>> {
    let mut found = judge_flows([network, network], pins);
    if found.is_empty() {
        found.extend(buffers::deadlock(network, &Tables::new(), pins));
    }
    if found.is_empty() { Ok(()) } else { Err(found) }
}

/// Of every optical switch, once the plan is carried out.
pub(crate) fn circuits_after(network: &Network<'_>, plan: &Plan) -> Circuits {
    let mut circuits = network.circuits.clone();
    circuits.extend(plan.circuits.clone());
    circuits
}

/// A plan knows only the network it was made for. Numbers of plans that came to nothing are not
/// given again, so its own may be any higher one.
fn generations(network: &Network<'_>, plan: &Plan) -> Vec<Unsound> {
    let (parent, generation, in_force) = (plan.parent, plan.generation, network.generation);
    let stale = (parent != in_force).then_some(Unsound::StaleParent { parent, in_force });
    let old = generation <= parent;
    let old = old.then_some(Unsound::WrongGeneration { parent, generation });
    stale.into_iter().chain(old).collect()
}

/// First the pins by themselves; only where they mean something are they followed further, all flows to a destination
/// together. What is found is reported flow by flow.
fn judge_flows([network, after]: [&Network<'_>; 2], planned: &[Pin]) -> Vec<Unsound> {
    let flows = pins::by_flow([network.pins, planned]);
    let mut found = BTreeMap::new();
    let mut followed: BTreeMap<FlowTarget, Vec<FlowKey>> = BTreeMap::new();
    for (&flow, pins) in &flows {
        let faults = pins::faults([network, after], pins);
        let address = flow.destination.ip();
        match network.addresses.get(address) {
            Some(&node) if faults.is_empty() => {
                let nic = network.nic_link(*address);
                let nic = nic.filter(|&link| network.is_at(node, link));
                let destination = FlowTarget { node, nic };
                followed.entry(destination).or_default().push(flow);
            }
            _ => {
                found.insert(flow, faults);
            }
        }
    }
    let ground = OnceCell::new();
    for (destination, of_destination) in followed {
        let ground = ground.get_or_init(|| Ground::of(network));
        let hops_left = ground.hops_to(destination.node, destination.nic);
        for flow in of_destination {
            let faults = ways::judge(ground, &hops_left, flow, destination, &flows[&flow]);
            found.insert(flow, faults);
        }
    }
    found.into_values().flatten().collect()
}
