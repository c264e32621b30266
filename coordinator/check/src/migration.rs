//! A migration plan step by step: each is judged for the network as the steps before have left it.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;

use reweave_common::fabric::{Circuits, Fabric};
use reweave_common::flow::FlowKey;
use reweave_common::forwarding::{ForwardingTable, NextHop};
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::migration_plan::{MigrationPlan, MigrationStep, Round, StepPosition, Tables};
use reweave_common::plan::Plan;

use crate::buffers;
use crate::circuits;
use crate::columns::TablesByDestination;
use crate::leaves;
use crate::mesh::{Ground, Mesh, Mishap};
use crate::unsound::Trouble;
use crate::{Network, Unsound, judge_flows};

/// Everything that speaks against this being the next step.
///
/// # Errors
/// With all that was found.
pub fn check_step(network: &Network<'_>, step: MigrationStep<'_>) -> Result<(), Vec<Unsound>> {
    let found = match step {
        MigrationStep::Round(round) => judge_round(network, round),
        MigrationStep::Switch(circuits) => judge_switch(network, circuits),
    };
    if found.is_empty() { Ok(()) } else { Err(found) }
}

/// Whether each step of a migration plan is sound, and all together lead to these tables and circuits.
///
/// # Errors
/// With what speaks against the first step that is unsound.
pub fn check_migration(
    network: &Network<'_>,
    migration_plan: &MigrationPlan,
    tables: &Tables,
    circuits: &Circuits,
) -> Result<(), Vec<Unsound>> {
    let mut check = MigrationCheck::new(network);
    loop {
        if let Some(verdict) = check.check_next(network, migration_plan, tables, circuits) {
            return verdict;
        }
    }
}

/// Judges a migration plan one step at a time, for callers that have other things to do between two steps.
#[derive(Debug, Clone)]
pub struct MigrationCheck {
    now: Now,
    /// How many steps were found sound.
    sound: usize,
}

impl MigrationCheck {
    /// Starts before the first step.
    pub fn new(network: &Network<'_>) -> Self {
        Self {
            now: Now::of(network),
            sound: 0,
        }
    }

    /// Judges the next step, in the same network as the steps before. Returns None while other steps follow. After the last
    /// step, the verdict is that of [`check_migration`].
    pub fn check_next(
        &mut self,
        network: &Network<'_>,
        migration_plan: &MigrationPlan,
        tables: &Tables,
        circuits: &Circuits,
    ) -> Option<Result<(), Vec<Unsound>>> {
        if let Some((_, step)) = migration_plan.steps().nth(self.sound) {
            if let Err(found) = check_step(&self.now.seen_in(network), step) {
                return Some(Err(found));
            }
            self.now.take(step);
            self.sound += 1;
        }
        if migration_plan.steps().nth(self.sound).is_some() {
            return None;
        }
        let arrives = strip(&self.now.tables) == strip(tables) && self.now.circuits == *circuits;
        Some(if arrives {
            Ok(())
        } else {
            Err(vec![Unsound::LeadsElsewhere])
        })
    }
}

/// Each step by itself, as the steps before have left the network, sound or not.
pub fn judge_steps(
    network: &Network<'_>,
    migration_plan: &MigrationPlan,
) -> Vec<(StepPosition, Vec<Unsound>)> {
    let mut now = Now::of(network);
    let judged = migration_plan.steps().map(|(place, step)| {
        let found = check_step(&now.seen_in(network), step);
        now.take(step);
        (place, found.err().unwrap_or_default())
    });
    judged.collect()
}

/// The network as steps have left it.
#[derive(Debug, Clone)]
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

    fn take(&mut self, step: MigrationStep<'_>) {
        match step {
            MigrationStep::Round(round) => {
                self.unsure.retain(|node, _| !round.contains_key(node));
                self.tables.extend(round.clone());
            }
            MigrationStep::Switch(circuits) => self.circuits.extend(circuits.clone()),
        }
    }
}

/// A table without a destination is none.
fn strip(tables: &Tables) -> BTreeMap<NodeId, &BTreeMap<NodeId, Vec<NextHop>>> {
    let some = tables.iter().filter(|(_, table)| !table.towards.is_empty());
    some.map(|(&node, table)| (node, &table.towards)).collect()
}

/// By destination: the nodes that send there otherwise by a plan.
pub(crate) fn changed_hops_by_plan(
    network: &Network<'_>,
    plan: &Plan,
) -> BTreeMap<NodeId, BTreeSet<NodeId>> {
    let nodes = network.tables.keys().chain(plan.tables.keys());
    let nodes: BTreeSet<_> = nodes.copied().collect();
    let mut changed = changed_hops(nodes, [network.tables, &plan.tables]);
    add_covered(network.fabric, [network.tables, &plan.tables], &mut changed);
    changed
}

/// Where nodes send otherwise to a leaf, so they may to the hosts behind it for which others have entries of their own.
fn add_covered<'a>(
    fabric: &Fabric,
    tables: impl IntoIterator<Item = &'a Tables>,
    changed: &mut BTreeMap<NodeId, BTreeSet<NodeId>>,
) {
    let tables = tables.into_iter().flat_map(Tables::values);
    let keys: BTreeSet<_> = tables.flat_map(|table| table.towards.keys()).collect();
    for &to in keys {
        let leaf = leaves::only_leaf(fabric, to);
        let nodes = leaf.and_then(|leaf| changed.get(&leaf)).cloned();
        if let Some(nodes) = nodes {
            changed.entry(to).or_default().extend(nodes);
        }
    }
}

/// What a plan of tables or circuits leads to, by itself: where packets go, and flows by the pins that it sets last.
pub(crate) fn at_rest(
    [network, after]: [&Network<'_>; 2],
    plan: &Plan,
    changed_hops: &BTreeMap<NodeId, BTreeSet<NodeId>>,
) -> Vec<Unsound> {
    let moves = after.circuits != network.circuits;
    let mut found = circuits::faults(network.fabric, &plan.circuits);
    if let Some(node) = stranger(network, &plan.tables) {
        found.push(Unsound::NoSuchNode { node });
    }
    if !found.is_empty() {
        return found;
    }
    let kept = plan.kept_of(network.pins);
    if kept.len() < plan.pins.len() {
        let last = Network {
            tables: &plan.tables,
            pins: &kept,
            ..*after
        };
        found.extend(judge_flows([&last, &last], &plan.pins));
    }
    let ground = Ground::of(after);
    let tables = TablesByDestination::of(&plan.tables, network.fabric);
    let everybody: BTreeSet<_> = plan.tables.keys().copied().collect();
    let lost = |to| {
        // Where circuits move, nodes without an instruction go other ways, too.
        let concerned = if moves {
            &everybody
        } else {
            changed_hops.get(&to)?
        };
        let concerned = concerned.iter().copied();
        let mesh = Mesh::at_rest(&ground, to, &tables, concerned, moves);
        Some(astray(after, to, mesh.mishap()?))
    };
    found.extend(network.fabric.endpoints().filter_map(lost));
    let mut leaves = leaves::leaf_keys(network.fabric, &plan.tables);
    leaves.extend(leaves::leaf_keys(network.fabric, network.tables));
    found.extend(leaves.into_iter().filter_map(lost));
    found
}

/// Switches with an entry for themselves: it would lead packets for their own NICs away.
pub(crate) fn led_away(network: &Network<'_>, tables: &Tables) -> impl Iterator<Item = Unsound> {
    let tables = tables.values();
    let own = tables.filter(|table| table.towards.contains_key(&table.at));
    let leaves = own.map(|table| table.at);
    let leaves = leaves.filter(move |&at| leaves::is_leaf(network.fabric, at));
    leaves.map(move |at| astray(network, at, Mishap::Circle(vec![at])))
}

/// By destination: those of the nodes that send there by one of these tables otherwise than by the other.
fn changed_hops(
    nodes: impl IntoIterator<Item = NodeId>,
    [old, new]: [&Tables; 2],
) -> BTreeMap<NodeId, BTreeSet<NodeId>> {
    let mut changed_hops: BTreeMap<NodeId, BTreeSet<NodeId>> = BTreeMap::new();
    for at in nodes {
        let differing = differing([old.get(&at), new.get(&at)]);
        for to in differing.into_iter().filter(|to| *to != at) {
            changed_hops.entry(to).or_default().insert(at);
        }
    }
    changed_hops
}

/// Of which destinations two tables of a node say something else, in the order of their numbers. A table that is absent
/// says nothing.
pub(crate) fn differing([old, new]: [Option<&ForwardingTable>; 2]) -> Vec<NodeId> {
    let nothing = BTreeMap::new();
    let [old, new] = [old, new].map(|table| table.map_or(&nothing, |table| &table.towards));
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    let mut differing = Vec::new();
    loop {
        let heads = [old.peek(), new.peek()].into_iter().flatten();
        let Some(to) = heads.map(|(to, _)| **to).min() else {
            return differing;
        };
        let hops = [&mut old, &mut new].map(|entries| {
            let entry = entries.next_if(|(at, _)| **at == to);
            entry.map(|(_, hops)| hops)
        });
        if hops[0] != hops[1] {
            differing.push(to);
        }
    }
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
    let ground = Ground::of(network);
    let next = TablesByDestination::of(round, network.fabric);
    let (unpinned, pinned) = (PinnedAt::new(), pinned(network));
    let mut found = Vec::new();
    for (destination, nodes) in changed_hops_by_round(network, round) {
        let flows = pinned.get(&destination).into_iter();
        let flows = flows.flat_map(BTreeMap::values);
        for pins in iter::once(&unpinned).chain(flows) {
            let mesh = Mesh::new(&ground, destination, &next, &nodes, pins);
            let mishap = mesh.mishap();
            found.extend(mishap.map(|mishap| astray(network, destination, mishap)));
        }
    }
    found.extend(led_away(network, round));
    if found.is_empty() {
        found.extend(buffers::deadlock(network, round, network.pins));
    }
    found
}

/// By destination: the nodes of a round that may send there otherwise than they do.
fn changed_hops_by_round(
    network: &Network<'_>,
    round: &Round,
) -> BTreeMap<NodeId, BTreeSet<NodeId>> {
    let nodes = round.keys().copied();
    let mut changed = changed_hops(nodes.clone(), [network.tables, round]);
    let unsure = nodes.filter(|node| network.unsure.contains_key(node));
    for (to, nodes) in changed_hops(unsure, [network.unsure, round]) {
        changed.entry(to).or_default().extend(nodes);
    }
    let all = [network.tables, network.unsure, round];
    add_covered(network.fabric, all, &mut changed);
    changed
}

/// By node: over which link a flow leaves it.
type PinnedAt = BTreeMap<NodeId, LinkId>;

/// By destination, of each flow that is pinned: by its host, and by the leaf of the NIC that it is for.
fn pinned(network: &Network<'_>) -> BTreeMap<NodeId, BTreeMap<FlowKey, PinnedAt>> {
    let mut pinned: BTreeMap<_, BTreeMap<_, PinnedAt>> = BTreeMap::new();
    for pin in network.pins {
        let address = pin.flow.destination.ip();
        let node = network.addresses.get(address).copied();
        let leaf = node.map(|node| network.leads_to(*address, node));
        for to in [node, leaf].into_iter().flatten() {
            let flows = pinned.entry(to).or_default();
            let at = flows.entry(pin.flow).or_default();
            at.insert(pin.at, pin.link);
        }
    }
    pinned
}

/// Circuits move, and nothing may pass them: not by what nodes hold, and so not by what the network does by itself
/// either, of which too little is known.
fn judge_switch(network: &Network<'_>, moved: &Circuits) -> Vec<Unsound> {
    let mut found = circuits::faults(network.fabric, moved);
    if !found.is_empty() {
        return found;
    }
    let mut after = network.circuits.clone();
    after.extend(moved.clone());
    let both = [network.circuits, &after];
    let [lit, lit_after] = both.map(|circuits| network.fabric.lit(circuits));
    let going_dark: BTreeSet<_> = lit
        .into_iter()
        .filter(|link| !network.down.contains(link) && lit_after.binary_search(link).is_err())
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

fn astray(network: &Network<'_>, destination: NodeId, mishap: Mishap) -> Unsound {
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
