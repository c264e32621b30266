//! A course leg by leg: each is judged for the network as the legs before have left it.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::course::{Course, Leg, Place, Round, Tables};
use reweave_common::fabric::Circuits;
use reweave_common::forwarding::NextHop;
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::plan::{Pin, Plan};

use crate::buffers;
use crate::circuits;
use crate::mesh::{Ground, Mesh, Mishap, entry};
use crate::unsound::Trouble;
use crate::{Network, Unsound};

/// Everything that speaks against this being the next leg.
///
/// # Errors
/// With all that was found.
pub fn check_leg(network: &Network<'_>, leg: Leg<'_>) -> Result<(), Vec<Unsound>> {
    let found = match leg {
        Leg::Round(round) => judge_round(network, round),
        Leg::Switch(circuits) => judge_switch(network, circuits),
    };
    if found.is_empty() { Ok(()) } else { Err(found) }
}

/// Whether each leg of a course is sound, and all together lead to these tables and circuits.
///
/// # Errors
/// With what speaks against the first leg that is unsound.
pub fn check_course(
    network: &Network<'_>,
    course: &Course,
    (tables, circuits): (&Tables, &Circuits),
) -> Result<(), Vec<Unsound>> {
    let mut now = Now::of(network);
    for (_, leg) in course.legs() {
        check_leg(&now.seen_in(network), leg)?;
        now.take(leg);
    }
    let arrives = strip(&now.tables) == strip(tables) && now.circuits == *circuits;
    if arrives {
        Ok(())
    } else {
        Err(vec![Unsound::LeadsElsewhere])
    }
}

/// Each leg by itself, as the legs before have left the network, sound or not.
pub fn judge_legs(network: &Network<'_>, course: &Course) -> Vec<(Place, Vec<Unsound>)> {
    let mut now = Now::of(network);
    let judged = course.legs().map(|(place, leg)| {
        let found = check_leg(&now.seen_in(network), leg);
        now.take(leg);
        (place, found.err().unwrap_or_default())
    });
    judged.collect()
}

/// The network as legs have left it.
struct Now {
    tables: Tables,
    unsure: Tables,
    circuits: Circuits,
}

impl Now {
    fn of(network: &Network<'_>) -> Self {
        Self {
            tables: network.tables.clone(),
            unsure: network.unsure.clone(),
            circuits: network.circuits.clone(),
        }
    }

    fn seen_in<'a>(&'a self, network: &Network<'a>) -> Network<'a> {
        Network {
            tables: &self.tables,
            unsure: &self.unsure,
            circuits: &self.circuits,
            ..*network
        }
    }

    fn take(&mut self, leg: Leg<'_>) {
        match leg {
            Leg::Round(round) => {
                self.unsure.retain(|node, _| !round.contains_key(node));
                self.tables.extend(round.clone());
            }
            Leg::Switch(circuits) => self.circuits.extend(circuits.clone()),
        }
    }
}

/// A table without a destination is none.
fn strip(tables: &Tables) -> BTreeMap<NodeId, &BTreeMap<NodeId, Vec<NextHop>>> {
    let some = tables.iter().filter(|(_, table)| !table.towards.is_empty());
    some.map(|(&node, table)| (node, &table.towards)).collect()
}

/// What a plan leads to, by itself. Where it changes nothing, it is not to blame for what there is.
pub(crate) fn at_rest(network: &Network<'_>, plan: &Plan) -> Vec<Unsound> {
    let mut circuits = network.circuits.clone();
    circuits.extend(plan.circuits.clone());
    let moves = circuits != *network.circuits;
    let nodes = network.tables.keys().chain(plan.tables.keys());
    let nodes: BTreeSet<_> = nodes.copied().collect();
    let led_anew = led_anew(nodes, [network.tables, &plan.tables]);
    if !moves && led_anew.is_empty() {
        return Vec::new();
    }
    let mut found = circuits::faults(network.fabric, &plan.circuits);
    if let Some(node) = stranger(network, &plan.tables) {
        found.push(Unsound::NoSuchNode { node });
    }
    let same_pins = |a: &[Pin], b: &[Pin]| a.iter().all(|pin| b.contains(pin));
    if !same_pins(network.pins, &plan.pins) || !same_pins(&plan.pins, network.pins) {
        found.push(Unsound::PinsBesides);
    }
    if !found.is_empty() {
        return found;
    }
    let after = Network {
        circuits: &circuits,
        ..*network
    };
    let ground = Ground::of(&after);
    let everybody: BTreeSet<_> = plan.tables.keys().copied().collect();
    let lost = |to| {
        // Where circuits move, whoever has not been told goes other ways, too.
        let concerned = match moves {
            true => &everybody,
            false => led_anew.get(&to)?,
        };
        let concerned = concerned.iter().copied();
        let mesh = Mesh::at_rest((&after, &ground), to, &plan.tables, concerned);
        Some(told(&after, to, mesh.mishap()?))
    };
    network.fabric.endpoints().filter_map(lost).collect()
}

/// By destination: those of the nodes that send there by one of these tables otherwise than by the other.
fn led_anew(
    nodes: impl IntoIterator<Item = NodeId>,
    [old, new]: [&Tables; 2],
) -> BTreeMap<NodeId, BTreeSet<NodeId>> {
    let mut led_anew: BTreeMap<NodeId, BTreeSet<NodeId>> = BTreeMap::new();
    for at in nodes {
        let both = [old, new].map(|tables| tables.get(&at));
        let known = both.into_iter().flatten();
        let known = known.flat_map(|table| table.towards.keys().copied());
        for to in known.filter(|to| *to != at) {
            if entry(old, to, at) != entry(new, to, at) {
                led_anew.entry(to).or_default().insert(at);
            }
        }
    }
    led_anew
}

/// A node that the fabric does not have, with a table or as a destination.
fn stranger(network: &Network<'_>, tables: &Tables) -> Option<usize> {
    let destinations = tables.values().flat_map(|table| table.towards.keys());
    let mut nodes = tables.keys().chain(destinations).map(|node| node.index());
    nodes.find(|&node| node >= network.fabric.nodes().len())
}

/// Nodes take these tables in any order.
fn judge_round(network: &Network<'_>, round: &Round) -> Vec<Unsound> {
    if let Some(node) = stranger(network, round) {
        return vec![Unsound::NoSuchNode { node }];
    }
    let ground = &Ground::of(network);
    let judged = led_anew_by(network, round).into_iter();
    let judged = judged.flat_map(|(destination, nodes)| {
        let pins = pinned(network, destination).into_iter();
        pins.filter_map(move |pins| {
            let mesh = Mesh::new((network, ground), destination, (round, &nodes), &pins);
            Some(told(network, destination, mesh.mishap()?))
        })
    });
    let mut found: Vec<_> = judged.collect();
    if found.is_empty() {
        found.extend(buffers::deadlock(network, round, network.pins));
    }
    found
}

/// By destination: the nodes of a round that may send there otherwise than they do.
fn led_anew_by(network: &Network<'_>, round: &Round) -> BTreeMap<NodeId, BTreeSet<NodeId>> {
    let nodes = round.keys().copied();
    let mut led_anew_by = led_anew(nodes.clone(), [network.tables, round]);
    let unsure = nodes.filter(|node| network.unsure.contains_key(node));
    for (to, nodes) in led_anew(unsure, [network.unsure, round]) {
        led_anew_by.entry(to).or_default().extend(nodes);
    }
    led_anew_by
}

/// Unpinned packets first, then each flow to this destination with its pins.
fn pinned(network: &Network<'_>, destination: NodeId) -> Vec<BTreeMap<NodeId, LinkId>> {
    let mut flows: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    for pin in network.pins {
        if network.addresses.get(pin.flow.destination.ip()) == Some(&destination) {
            flows.entry(pin.flow).or_default().insert(pin.at, pin.link);
        }
    }
    let mut pins = vec![BTreeMap::new()];
    pins.extend(flows.into_values());
    pins
}

/// Circuits move, and nothing may pass them: not by what nodes hold, and so not by what the
/// network does by itself either, of which nobody knows enough.
fn judge_switch(network: &Network<'_>, moved: &Circuits) -> Vec<Unsound> {
    let mut found = circuits::faults(network.fabric, moved);
    if !found.is_empty() {
        return found;
    }
    let mut after = network.circuits.clone();
    after.extend(moved.clone());
    let dark = network.fabric.dark(&after);
    let going_dark: BTreeSet<_> = dark
        .into_iter()
        .filter(|&link| network.is_open(link))
        .collect();
    for node in network.fabric.nodes().map(|(node, _)| node) {
        found.extend(passes(network, node, &going_dark));
    }
    found.extend(circuits::too_narrow(network, &going_dark));
    found
}

fn passes<'a>(
    network: &'a Network<'a>,
    at: NodeId,
    going_dark: &'a BTreeSet<LinkId>,
) -> impl Iterator<Item = Unsound> + 'a {
    let fabric = network.fabric;
    let is_concerned = fabric
        .links_of(at)
        .iter()
        .any(|link| going_dark.contains(link));
    let name = move |node| fabric.name(node).to_owned();
    let destinations = fabric
        .endpoints()
        .filter(move |&to| is_concerned && to != at);
    destinations.filter_map(move |to| {
        let hops = |tables: &'a Tables| tables.get(&at)?.towards.get(&to);
        let is_sure = !network.unsure.contains_key(&at);
        let Some(hops) = hops(network.tables).filter(|_| is_sure) else {
            let (at, destination) = (name(at), name(to));
            return Some(Unsound::Unrouted { at, destination });
        };
        let mut links = hops.iter().map(|hop| hop.link);
        let link = links.find(|link| going_dark.contains(link))?;
        Some(Unsound::UnderTraffic {
            at: name(at),
            link: fabric.link_name(link),
            destination: name(to),
        })
    })
}

fn told(network: &Network<'_>, destination: NodeId, mishap: Mishap) -> Unsound {
    let fabric = network.fabric;
    let name = |node| fabric.name(node).to_owned();
    let trouble = match mishap {
        Mishap::Circle(nodes) => Trouble::Circle {
            nodes: nodes.into_iter().map(name).collect(),
        },
        Mishap::Stuck(node) => Trouble::Stuck { at: name(node) },
        Mishap::Dead(node, link) => Trouble::DeadLink {
            at: name(node),
            link: crate::pins::link_name(fabric, link),
        },
    };
    Unsound::Astray {
        destination: name(destination),
        trouble,
    }
}
