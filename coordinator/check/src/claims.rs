//! What a plan needs for itself alone: worked out from what it changes, and never taken on anybody's
//! word.
//!
//! Towards one destination only those nodes may ever be led elsewhere whose packets pass what moves,
//! before or after: whatever is drained on the way, all others go on as they did.

use std::collections::BTreeSet;

use reweave_common::claims::Claims;
use reweave_common::course::Tables;
use reweave_common::forwarding::NextHop;
use reweave_common::ids::{LinkId, NodeId, OpticalId};
use reweave_common::plan::{Pin, Plan};

use crate::mesh::{Open, listed};
use crate::{Network, circuits_after};

/// What only this plan may touch while it is on its way.
pub fn claims(network: &Network<'_>, plan: &Plan) -> Claims {
    let circuits = circuits_after(network, plan);
    let after = Network {
        circuits: &circuits,
        ..*network
    };
    let mut found = Found::default();
    let jobs = plan.orders.iter().map(|order| order.job.clone());
    found.0.jobs.extend(jobs);
    found.take_pins([network, &after], plan);
    found.take_moves(network, plan);
    found.take_tables([network, &after], &plan.tables);
    let moved = moved(network, plan);
    if !moved.is_empty() {
        found.take_circuits([network, &after], &plan.tables, &moved);
    }
    found.0
}

/// What has been found so far.
#[derive(Default)]
struct Found(Claims);

impl Found {
    /// Where a flow is pinned otherwise, and all that lies behind.
    fn take_pins(&mut self, [before, after]: [&Network<'_>; 2], plan: &Plan) {
        let is_in_both = |pin: &&Pin| before.pins.contains(pin) && plan.pins.contains(pin);
        let all = before.pins.iter().chain(&plan.pins);
        let changed: Vec<_> = all.filter(|pin| !is_in_both(pin)).copied().collect();
        self.0.nodes.extend(changed.iter().map(|pin| pin.at));
        self.0.links.extend(changed.iter().map(|pin| pin.link));
        let flows: BTreeSet<_> = changed.iter().map(|pin| pin.flow).collect();
        let open = [before, after].map(Open::of);
        for &flow in &flows {
            let Some(&to) = before.addresses.get(flow.destination.ip()) else {
                continue;
            };
            self.0.destinations.insert(to);
            let from = changed.iter().filter(|pin| pin.flow == flow);
            let from: Vec<_> = from.map(|pin| pin.at).collect();
            let both = [
                (before, &open[0], before.pins),
                (after, &open[1], &plan.pins),
            ];
            for (network, open, pins) in both {
                let mut ways = Ways::new((network, open), network.tables, to);
                for pin in pins.iter().filter(|pin| pin.flow == flow) {
                    if let Some(links) = ways.links.get_mut(pin.at.index()) {
                        *links = vec![pin.link];
                    }
                }
                self.0.links.extend(ways.passed_from(&from));
            }
        }
        self.0.flows.extend(flows);
    }

    /// What whoever made the plan says of it.
    fn take_moves(&mut self, network: &Network<'_>, plan: &Plan) {
        let is_there = |link: &LinkId| link.index() < network.fabric.links().len();
        let hops = plan.moves.iter().flat_map(|it| [it.from, it.to]);
        self.0
            .links
            .extend(hops.map(|hop| hop.link).filter(is_there));
        let moved = plan.moves.iter().map(|it| it.flow);
        let foreseen = plan.predictions.iter().map(|it| it.flow);
        self.0.flows.extend(moved.chain(foreseen));
    }

    /// Whoever is told anything; and behind them all that goes another way by it.
    fn take_tables(&mut self, [before, after]: [&Network<'_>; 2], tables: &Tables) {
        let nodes: BTreeSet<_> = before.tables.keys().chain(tables.keys()).copied().collect();
        let told = nodes
            .iter()
            .filter(|at| is_told(before.tables, tables, **at));
        let told: Vec<_> = told.copied().collect();
        let to_them = |to: &NodeId| to.index() < before.fabric.nodes().len();
        let all = [before.tables, tables].into_iter().flat_map(Tables::values);
        let towards: BTreeSet<_> = all.flat_map(|it| it.towards.keys().copied()).collect();
        let open = [before, after].map(Open::of);
        for to in towards.into_iter().filter(to_them) {
            let ways = [(before, &open[0], before.tables), (after, &open[1], tables)];
            let ways = ways.map(|(network, open, tables)| Ways::new((network, open), tables, to));
            let goes_on = |at: &NodeId| {
                let weights = [before.tables, tables].map(|it| weights(it, *at, to));
                ways[0].same_as(&ways[1], *at) && weights[0] == weights[1]
            };
            let elsewhere = told.iter().filter(|at| !goes_on(at));
            let elsewhere: Vec<_> = elsewhere.copied().collect();
            if !elsewhere.is_empty() {
                self.0.destinations.insert(to);
            }
            let passed = ways.iter().map(|ways| ways.passed_from(&elsewhere));
            self.0.links.extend(passed.flatten());
        }
        self.0.nodes.extend(told);
    }

    /// Whoever passes what moves, and whoever it is plugged into.
    fn take_circuits(
        &mut self,
        [before, after]: [&Network<'_>; 2],
        tables: &Tables,
        moved: &BTreeSet<OpticalId>,
    ) {
        let fabric = before.fabric;
        let plugged = fabric.fibres().filter(|it| moved.contains(&it.optical));
        self.0.nodes.extend(plugged.map(|fibre| fibre.node));
        self.0.opticals.extend(moved);
        let is_moving = |link: &LinkId| {
            let crossing = fabric.crossing(*link);
            crossing.is_some_and(|it| moved.contains(&it.optical))
        };
        let links = fabric.links().map(|(link, _)| link);
        let moving: BTreeSet<_> = links.filter(is_moving).collect();
        let open = [before, after].map(Open::of);
        for to in fabric.endpoints() {
            let both = [(before, &open[0], before.tables), (after, &open[1], tables)];
            for (network, open, tables) in both {
                let ways = Ways::new((network, open), tables, to);
                let users = ways.users_of(&moving);
                if !users.is_empty() {
                    self.0.destinations.insert(to);
                }
                self.0.links.extend(ways.passed_from(&users));
                self.0.nodes.extend(users);
            }
        }
        self.0.links.extend(moving);
    }
}

/// Optical switches whose circuits would be others.
fn moved(network: &Network<'_>, plan: &Plan) -> BTreeSet<OpticalId> {
    let all = plan.circuits.iter();
    let is_moved = |(optical, set): &(&OpticalId, _)| network.circuits.get(optical) != Some(*set);
    all.filter(is_moved).map(|(&optical, _)| optical).collect()
}

fn is_told(before: &Tables, after: &Tables, at: NodeId) -> bool {
    let entries = |tables: &Tables| tables.get(&at).map(|table| table.towards.clone());
    let [before, after] = [before, after].map(|tables| entries(tables).unwrap_or_default());
    before != after
}

/// Of ways that are not all the same.
fn weights(tables: &Tables, at: NodeId, to: NodeId) -> Option<&Vec<NextHop>> {
    let hops = tables.get(&at)?.towards.get(&to)?;
    let first = hops.first()?.weight;
    hops.iter().any(|hop| hop.weight != first).then_some(hops)
}

/// Where everybody sends what is for one destination.
pub(crate) struct Ways<'a> {
    network: &'a Network<'a>,
    to: NodeId,
    /// By node.
    links: Vec<Vec<LinkId>>,
}

impl<'a> Ways<'a> {
    pub(crate) fn new(
        (network, open): (&'a Network<'a>, &Open<'_>),
        tables: &Tables,
        to: NodeId,
    ) -> Self {
        let own = open.routes(to);
        let nodes = network.fabric.nodes().map(|(node, _)| node);
        let links = nodes.map(|node| listed(tables, to, node, &own));
        Self {
            network,
            to,
            links: links.collect(),
        }
    }

    /// The ends of a node's ways, and over which links.
    fn next(&self, at: NodeId) -> impl Iterator<Item = (LinkId, NodeId)> {
        let fabric = self.network.fabric;
        let links = self.links.get(at.index()).filter(|_| at != self.to);
        let links = links.into_iter().flatten();
        let own = links.filter(move |link| fabric.links_of(at).contains(link));
        own.map(move |&link| (link, fabric.link(link).far(at).node))
    }

    fn same_as(&self, other: &Self, at: NodeId) -> bool {
        let links = |ways: &Self| {
            ways.links
                .get(at.index())
                .map(|it| BTreeSet::from_iter(it.clone()))
        };
        links(self) == links(other)
    }

    /// All links that packets pass from there.
    pub(crate) fn passed_from(&self, from: &[NodeId]) -> BTreeSet<LinkId> {
        let (mut passed, mut seen) = (BTreeSet::new(), BTreeSet::new());
        let mut open = from.to_vec();
        while let Some(at) = open.pop() {
            if seen.insert(at) {
                for (link, next) in self.next(at) {
                    passed.insert(link);
                    open.push(next);
                }
            }
        }
        passed
    }

    /// All whose packets may pass any of these.
    fn users_of(&self, moving: &BTreeSet<LinkId>) -> Vec<NodeId> {
        let mut users = BTreeSet::new();
        loop {
            let nodes = self.network.fabric.nodes().map(|(node, _)| node);
            let more = nodes.filter(|node| !users.contains(node)).filter(|&node| {
                let mut next = self.next(node);
                next.any(|(link, next)| moving.contains(&link) || users.contains(&next))
            });
            let more: Vec<_> = more.collect();
            if more.is_empty() {
                return users.into_iter().collect();
            }
            users.extend(more);
        }
    }
}
