//! Fibres to optical switches: interfaces at both ends, and what the nodes know beforehand of
//! neighbours that may change at any time. Pure, as the rest of the wiring.
//!
//! All interfaces at fibres have one hardware address, the *fabric MAC*. So any port that a fibre comes to lead to is
//! reached by what the sender has known from the start, and no sender that keeps the address it once resolved is ever
//! wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use reweave_common::circuit::CircuitSet;
use reweave_common::fabric::{Fabric, Fibre, OpticalSwitch};
use reweave_common::hardware::Mac;
use reweave_common::ids::{LinkId, NodeId, OpticalId};

use crate::addressing::Addressing;
use crate::sharing::Sharing;
use crate::wiring::{FIRST_INDEX, MTU_BYTES, rate_line};

const FIBRE_MAC: Mac = Mac::DEFAULT_FIBRE_MAC;

/// Returns ip commands, outside the nodes, that create each fibre between its node and its optical switch.
pub(crate) fn links_script(fabric: &Fabric) -> String {
    let first = FIRST_INDEX + 2 * fabric.links().len();
    let fibres = fabric.fibres().enumerate().map(|(count, fibre)| {
        let index = first + 2 * count;
        let (name, port) = (&fibre.interface, fibre.port);
        let (node, optical) = (fabric.name(fibre.node), fabric.optical(fibre.optical));
        format!(
            "link add name {name} index {index} address {FIBRE_MAC} mtu {MTU_BYTES} \
             netns /run/netns/{node} type veth peer name p{port} index {} mtu {MTU_BYTES} \
             netns /run/netns/{}\n",
            index + 1,
            optical.name
        )
    });
    fibres.collect()
}

/// Returns ip commands inside a node that set its fibres up.
pub(crate) fn ports_script(fabric: &Fabric, node: NodeId) -> String {
    let fibres = fibres_of(fabric, node);
    fibres
        .map(|fibre| format!("link set {} up\n", fibre.interface))
        .collect()
}

/// Returns ip commands inside a node: its stable address, unless a cable has it, and routes over its fibres.
pub(crate) fn node_script(fabric: &Fabric, addressing: &Addressing, node: NodeId) -> String {
    let mut script = String::new();
    let stable = |node| addressing.of_node(fabric, node);
    for fibre in fibres_of(fabric, node) {
        for (other, _) in fabric.nodes().filter(|(other, _)| *other != node) {
            let _ = writeln!(
                script,
                "neighbour add {} lladdr {FIBRE_MAC} nud permanent dev {}",
                stable(other),
                fibre.interface
            );
        }
    }
    script
}

/// The interface that bears the stable address of a node that has fibres and no cables.
pub(crate) fn main_interface(fabric: &Fabric, node: NodeId) -> Option<&str> {
    let names = fibres_of(fabric, node).map(|fibre| fibre.interface.as_str());
    names.min()
}

/// Returns tc commands inside a node that limit each fibre to its rate.
pub(crate) fn rates_script(fabric: &Fabric, node: NodeId, sharing: Sharing) -> String {
    let fibres = fibres_of(fabric, node);
    fibres
        .map(|fibre| rate_line(&fibre.interface, fibre.rate, sharing))
        .collect()
}

/// Returns the arguments with which this program runs as that switch.
pub(crate) fn switch_arguments(
    fabric: &Fabric,
    id: OpticalId,
    optical: &OpticalSwitch,
) -> Vec<String> {
    let circuits = fabric.first_circuits().get(&id);
    let circuits = circuits.into_iter().flat_map(CircuitSet::iter);
    let circuits = circuits.flat_map(|it| ["--circuit".to_owned(), it.to_string()]);
    let fibres = fabric.fibres().filter(|fibre| fibre.optical == id);
    let losses =
        fibres.flat_map(|it| ["--port-loss".to_owned(), format!("{}={}", it.port, it.loss)]);
    let budget = optical.budget.into_iter();
    let budget = budget.flat_map(|it| ["--budget-db".to_owned(), it.to_string()]);
    ["optical-switch", "--ports"]
        .map(str::to_owned)
        .into_iter()
        .chain([optical.ports.to_string()])
        .chain(["--loss-db".to_owned(), optical.loss.to_string()])
        .chain(losses)
        .chain(budget)
        .chain(circuits)
        .collect()
}

fn fibres_of(fabric: &Fabric, node: NodeId) -> impl Iterator<Item = &Fibre> {
    fabric.fibres().filter(move |fibre| fibre.node == node)
}

/// Returns the shortest paths over lit links to every node.
pub(crate) fn lit_ways(fabric: &Fabric) -> BTreeMap<(NodeId, NodeId), Vec<LinkId>> {
    let dark = fabric.dark(fabric.first_circuits());
    let mut ways = BTreeMap::new();
    for (to, _) in fabric.nodes() {
        let distances = distances(fabric, &dark, to);
        for (from, distance) in distances.iter().filter(|(_, distance)| **distance > 0) {
            let nearer = |link: &LinkId| {
                let far = fabric.link(*link).far(*from).node;
                let passes_on = far == to || fabric.node(far).role.forwards();
                passes_on
                    && !dark.contains(link)
                    && distances.get(&far).is_some_and(|it| it + 1 == *distance)
            };
            let links = fabric.links_of(*from).iter().copied().filter(nearer);
            ways.insert((*from, to), links.collect());
        }
    }
    ways
}

/// Returns the number of links from each node to `to`, for nodes that can reach it.
fn distances(fabric: &Fabric, dark: &BTreeSet<LinkId>, to: NodeId) -> BTreeMap<NodeId, usize> {
    let mut distances = BTreeMap::from([(to, 0)]);
    let mut edge = vec![to];
    while !edge.is_empty() {
        let mut next = vec![];
        for node in edge {
            let distance = distances[&node] + 1;
            for link in fabric.links_of(node).iter().filter(|it| !dark.contains(it)) {
                let far = fabric.link(*link).far(node).node;
                // A node that does not forward is on no path between others.
                let passes_on = node == to || fabric.node(node).role.forwards();
                if passes_on && !distances.contains_key(&far) {
                    distances.insert(far, distance);
                    next.push(far);
                }
            }
        }
        edge = next;
    }
    distances
}
