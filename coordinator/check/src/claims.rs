//! What a plan needs for itself alone: worked out from what it changes, and never taken from the plan itself.
//!
//! Towards one destination only those nodes may ever be led elsewhere whose packets pass what moves, before or after:
//! with any drains on the way, all others go on as they did.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::mem;

use reweave_common::forwarding::NextHop;
use reweave_common::ids::{LinkId, NodeId, OpticalId};
use reweave_common::migration_plan::Tables;
use reweave_common::plan::{Pin, Plan};
use reweave_common::resource_set::ResourceSet;

use crate::columns::TablesByDestination;
use crate::mesh::{NextLinks, Open};
use crate::migration::differing;
use crate::pins::by_flow;
use crate::{Network, circuits_after};

/// What only this plan may touch while it is on its way.
pub fn claims(network: &Network<'_>, plan: &Plan) -> ResourceSet {
    let circuits = circuits_after(network, plan);
    let after = Network {
        circuits: &circuits,
        tables: &plan.tables,
        pins: &plan.pins,
        ..*network
    };
    let both = &[Side::of(network), Side::of(&after)];
    let mut found = ClaimSet::default();
    let jobs = plan.orders.iter().map(|order| order.job.clone());
    found.0.jobs.extend(jobs);
    found.take_pins(both);
    found.take_moves(network, plan);
    found.take_tables(both);
    let moved = moved(network, plan);
    if !moved.is_empty() {
        found.take_circuits(both, &moved);
    }
    found.0
}

/// The network before a plan, or after it.
struct Side<'a> {
    network: &'a Network<'a>,
    open: Open<'a>,
    tables: TablesByDestination<'a>,
}

impl<'a> Side<'a> {
    fn of(network: &'a Network<'a>) -> Self {
        Self {
            network,
            open: Open::of(network),
            tables: TablesByDestination::of(network.tables, network.fabric),
        }
    }

    /// By its tables.
    fn ways(&self, to: NodeId) -> DestinationForwarding<'_> {
        DestinationForwarding::new(self.network, &self.open, &self.tables, to)
    }
}

/// What has been found so far.
#[derive(Default)]
struct ClaimSet(ResourceSet);

impl ClaimSet {
    /// Where a flow is pinned otherwise, and all that lies behind.
    fn take_pins(&mut self, [before, after]: &[Side<'_>; 2]) {
        let network = before.network;
        for (flow, pins) in by_flow([network.pins, after.network.pins]) {
            let both = [&pins.in_force, &pins.planned];
            let [in_force, planned] = both.map(|pins| pins.iter().collect::<BTreeSet<&Pin>>());
            let changed: Vec<_> = in_force.symmetric_difference(&planned).collect();
            if changed.is_empty() {
                continue;
            }
            self.0.flows.insert(flow);
            self.0.nodes.extend(changed.iter().map(|pin| pin.at));
            self.0.links.extend(changed.iter().map(|pin| pin.link));
            let address = flow.destination.ip();
            let Some(&to) = network.addresses.get(address) else {
                continue;
            };
            let to = network.leads_to(*address, to);
            self.0.destinations.extend(network.claimed_with(to));
            self.0.links.extend(network.nic_link(*address));
            let from: Vec<_> = changed.iter().map(|pin| pin.at).collect();
            for (side, pins) in [before, after].into_iter().zip(both) {
                let mut ways = side.ways(to);
                ways.pin(pins);
                self.0.links.extend(ways.passed_from(&from));
            }
        }
    }

    /// What the plan's author says of it.
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

    /// All nodes that get an instruction; and behind them all that goes another way by it.
    fn take_tables(&mut self, both: &[Side<'_>; 2]) {
        let [before, after] = both.each_ref().map(|side| side.network);
        let nodes: BTreeSet<_> = before.tables.keys().chain(after.tables.keys()).collect();
        let (mut instructed, mut towards) = (Vec::new(), BTreeSet::new());
        for &at in nodes {
            let differing = differing([before.tables.get(&at), after.tables.get(&at)]);
            if !differing.is_empty() {
                instructed.push(at);
                towards.extend(differing);
            }
        }
        // Where circuits move, a node without an instruction for a destination may send there another way, too.
        if before.circuits != after.circuits {
            let all = [before.tables, after.tables].into_iter();
            let all = all.flat_map(Tables::values);
            towards.extend(all.flat_map(|table| table.towards.keys().copied()));
        }
        let is_there = |to: &NodeId| to.index() < before.fabric.nodes().len();
        for to in towards.into_iter().filter(is_there) {
            self.take_ways_to(to, both, &instructed);
        }
        self.0.nodes.extend(instructed);
    }

    /// Of those that get an instruction.
    fn take_ways_to(&mut self, to: NodeId, both: &[Side<'_>; 2], instructed_nodes: &[NodeId]) {
        let ways = both.each_ref().map(|side| side.ways(to));
        let goes_on = |at: &NodeId| {
            let hops = both.each_ref().map(|side| side.tables.entry(to, *at));
            let [before, after] = hops.map(|hops| hops.filter(|hops| is_weighed(hops)));
            ways[0].same_as(&ways[1], *at) && before == after
        };
        let elsewhere = instructed_nodes.iter().filter(|at| !goes_on(at));
        let elsewhere: Vec<_> = elsewhere.copied().collect();
        if !elsewhere.is_empty() {
            self.0.destinations.extend(both[0].network.claimed_with(to));
        }
        for ways in &ways {
            self.0.links.extend(ways.passed_from(&elsewhere));
        }
    }

    /// All nodes whose packets pass what moves, and the nodes that it is plugged into.
    fn take_circuits(&mut self, both: &[Side<'_>; 2], moved: &BTreeSet<OpticalId>) {
        let fabric = both[0].network.fabric;
        let plugged = fabric.fibres().filter(|it| moved.contains(&it.optical));
        self.0.nodes.extend(plugged.map(|fibre| fibre.node));
        self.0.opticals.extend(moved);
        let is_moving = |link: LinkId| {
            let crossing = fabric.crossing(link);
            crossing.is_some_and(|it| moved.contains(&it.optical))
        };
        for to in fabric.endpoints() {
            for side in both {
                let ways = side.ways(to);
                let users = ways.users_of(is_moving);
                if !users.is_empty() {
                    self.0.destinations.extend(side.network.claimed_with(to));
                }
                self.0.links.extend(ways.passed_from(&users));
                self.0.nodes.extend(users);
            }
        }
        let links = fabric.links().map(|(link, _)| link);
        self.0.links.extend(links.filter(|link| is_moving(*link)));
    }
}

/// Optical switches whose circuits would be others.
fn moved(network: &Network<'_>, plan: &Plan) -> BTreeSet<OpticalId> {
    let all = plan.circuits.iter();
    let is_moved = |(optical, set): &(&OpticalId, _)| network.circuits.get(optical) != Some(*set);
    all.filter(is_moved).map(|(&optical, _)| optical).collect()
}

/// Whether some of these ways weigh more than others.
fn is_weighed(hops: &[NextHop]) -> bool {
    let mut weights = hops.iter().map(|hop| hop.weight);
    let first = weights.next();
    weights.any(|weight| Some(weight) != first)
}

/// Where every node sends what is for one destination.
pub(crate) struct DestinationForwarding<'a> {
    network: &'a Network<'a>,
    to: NodeId,
    /// By node.
    ways: Vec<NextLinks<'a>>,
}

impl<'a> DestinationForwarding<'a> {
    pub(crate) fn new(
        network: &'a Network<'a>,
        open: &Open<'_>,
        tables: &TablesByDestination<'a>,
        to: NodeId,
    ) -> Self {
        let own = OnceCell::new();
        let by_itself = |node: NodeId| {
            let routes = own.get_or_init(|| open.routes(to));
            NextLinks::Links(routes[node.index()].clone())
        };
        let nodes = network.fabric.nodes().map(|(node, _)| node);
        let ways = nodes.map(|node| {
            let reports = tables.entry(to, node).map(NextLinks::Table);
            reports.unwrap_or_else(|| by_itself(node))
        });
        Self {
            network,
            to,
            ways: ways.collect(),
        }
    }

    /// The pins are those of one flow.
    fn pin(&mut self, pins: &[Pin]) {
        for pin in pins {
            if let Some(way) = self.ways.get_mut(pin.at.index()) {
                *way = NextLinks::Links(vec![pin.link]);
            }
        }
    }

    /// The ends of a node's ways, and over which links.
    pub(crate) fn next(&self, at: NodeId) -> impl Iterator<Item = (LinkId, NodeId)> {
        let network = self.network;
        let way = self.ways.get(at.index()).filter(|_| at != self.to);
        let links = way.into_iter().flat_map(NextLinks::links);
        let own = links.filter(move |link| network.is_at(at, *link));
        own.map(move |link| (link, network.fabric.link(link).far(at).node))
    }

    fn same_as(&self, other: &Self, at: NodeId) -> bool {
        let links = |ways: &Self| {
            let way = ways.ways.get(at.index());
            way.map(|way| way.links().collect::<BTreeSet<_>>())
        };
        links(self) == links(other)
    }

    /// All links that packets pass from there.
    pub(crate) fn passed_from(&self, from: &[NodeId]) -> Vec<LinkId> {
        let (mut passed, mut seen) = (Vec::new(), vec![false; self.ways.len()]);
        let mut open = from.to_vec();
        while let Some(at) = open.pop() {
            let is_new = seen
                .get_mut(at.index())
                .is_some_and(|it| !mem::replace(it, true));
            for (link, next) in self.next(at).filter(|_| is_new) {
                passed.push(link);
                open.push(next);
            }
        }
        passed
    }

    /// All whose packets may pass any of the links that move.
    fn users_of(&self, is_moving: impl Fn(LinkId) -> bool) -> Vec<NodeId> {
        let nodes = || self.network.fabric.nodes().map(|(node, _)| node);
        let mut tails = vec![Vec::new(); self.ways.len()];
        let (mut is_user, mut open) = (vec![false; self.ways.len()], Vec::new());
        for at in nodes() {
            for (link, next) in self.next(at) {
                tails[next.index()].push(at);
                if is_moving(link) {
                    open.push(at);
                }
            }
        }
        while let Some(at) = open.pop() {
            if !mem::replace(&mut is_user[at.index()], true) {
                open.extend(&tails[at.index()]);
            }
        }
        nodes().filter(|node| is_user[node.index()]).collect()
    }
}
