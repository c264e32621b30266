//! Lower bound of the time of a collective, from the narrowest cut.
//!
//! If all hosts gather from all, the data of the hosts on one side of a cut must leave it. So each host's data flow at
//! most at the rate x = min over all cuts S of (rate leaving S) / (hosts in S), and packing spanning trees attains that
//! rate. It is found exactly: a maximum flow from all hosts at rate x to each single one either exists or names a
//! narrower cut, which gives the next x.

use std::collections::BTreeSet;

use reweave_common::fabric::{Fabric, Role};
use reweave_common::ids::NodeId;
use reweave_common::iteration::Operation;

use super::flow::{FlowGraph, UNBOUNDED_CAPACITY};
use super::twins;
use super::{Collective, CollectiveError};
use crate::engine::network::{Compass, Costs, Network};

/// A graph with whole capacities in which some nodes are hosts.
#[derive(Debug, Clone)]
pub(super) struct Capacities {
    pub(super) nodes: usize,
    pub(super) hosts: Vec<usize>,
    /// From, to, capacity: parallel links are one.
    pub(super) edges: Vec<(usize, usize, i128)>,
    /// Bits per second in one unit.
    pub(super) unit_bps: f64,
}

/// A rate of `over / under` units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ratio {
    pub(super) over: i128,
    pub(super) under: i128,
}

impl Ratio {
    fn is_less_than(self, other: Self) -> bool {
        self.over * other.under < other.over * self.under
    }
}

impl Capacities {
    pub(super) fn of(fabric: &Fabric, hosts: &[NodeId]) -> Self {
        let mut between = std::collections::BTreeMap::new();
        // Hosts that take no part pass nothing on.
        let members: BTreeSet<_> = hosts.iter().collect();
        let ends_there = |node| fabric.node(node).role == Role::Host && !members.contains(&node);
        for (_, link) in fabric.links() {
            if ends_there(link.a.node) || ends_there(link.b.node) {
                continue;
            }
            let [a, b] = [link.a.node.index(), link.b.node.index()];
            for ends in [(a, b), (b, a)] {
                *between.entry(ends).or_insert(0) += i128::from(link.rate.bits_per_s());
            }
        }
        let unit = between.values().copied().fold(0, gcd).max(1);
        let edges = between.into_iter().map(|((a, b), bps)| (a, b, bps / unit));
        Self {
            nodes: fabric.nodes().len(),
            hosts: hosts.iter().map(|host| host.index()).collect(),
            edges: edges.collect(),
            unit_bps: unit as f64,
        }
    }

    /// The best rate at which each host's data can reach all others, or the first one's when it
    /// alone has any.
    pub(super) fn best_rate(&self, roots: usize, limit: u64) -> Result<Ratio, CollectiveError> {
        let mut best = self.rate_into_single_hosts(roots);
        let witnesses = twins::one_of_each(self, roots);
        let mut work = 0;
        while best.over > 0
            && let Some(cut) = self.narrower_cut(best, roots, &witnesses, &mut work)
        {
            best = cut;
            if work > limit {
                return Err(CollectiveError::TooMuchWork { limit });
            }
        }
        Ok(best)
    }

    /// The cuts that leave one host outside.
    fn rate_into_single_hosts(&self, roots: usize) -> Ratio {
        let mut into = vec![0; self.nodes];
        for &(_, to, capacity) in &self.edges {
            into[to] += capacity;
        }
        let is_root = |nth: usize| usize::from(nth < roots);
        let cuts = self.hosts.iter().enumerate().filter_map(|(nth, &host)| {
            let under = (roots - is_root(nth)) as i128;
            (under > 0).then_some(Ratio {
                over: into[host],
                under,
            })
        });
        let least = |a: Ratio, b: Ratio| if b.is_less_than(a) { b } else { a };
        cuts.reduce(least).unwrap_or(Ratio { over: 0, under: 1 })
    }

    /// `witnesses` are hosts of which one is behind the cut if any is.
    fn narrower_cut(
        &self,
        rate: Ratio,
        roots: usize,
        witnesses: &[usize],
        work: &mut u64,
    ) -> Option<Ratio> {
        let mut graph = Demand::new(self.nodes, &self.hosts[..roots], rate.over);
        for &(from, to, capacity) in &self.edges {
            graph.flow.add(from, to, capacity * rate.under);
        }
        let unmet = witnesses.iter().find(|&&host| graph.short_of(host) > 0);
        *work += graph.flow.work;
        unmet?;
        let inside = graph.flow.reached();
        let leaves = |&&(from, to, _): &&(usize, usize, i128)| inside[from] && !inside[to];
        let over = self.edges.iter().filter(leaves).map(|edge| edge.2).sum();
        let under = self.hosts[..roots]
            .iter()
            .filter(|&&host| inside[host])
            .count();
        Some(Ratio {
            over,
            under: under as i128,
        })
    }
}

/// Whether data of the roots can flow to each host: a source that feeds each root at its rate.
///
/// The first arcs lead from the source to each node, in order.
pub(super) struct Demand {
    pub(super) flow: FlowGraph,
    source: usize,
    total: i128,
}

impl Demand {
    pub(super) fn new(nodes: usize, roots: &[usize], rate: i128) -> Self {
        let mut flow = FlowGraph::new(nodes + 1);
        for node in 0..nodes {
            flow.add(nodes, node, 0);
        }
        for &root in roots {
            flow.set(root, rate);
        }
        Self {
            flow,
            source: nodes,
            total: rate * roots.len() as i128,
        }
    }

    /// Returns the missing flow to a host. A host that gets everything becomes a source: no cut that is too narrow has
    /// it on the far side.
    pub(super) fn short_of(&mut self, host: usize) -> i128 {
        self.flow.reset();
        let flow = self.flow.most(self.source, host, self.total);
        if flow >= self.total {
            self.flow.set(host, UNBOUNDED_CAPACITY);
        }
        (self.total - flow).max(0)
    }
}

pub(super) fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The time in microseconds that no algorithm can beat, latencies aside. An all-reduce is held to
/// scattering even shares and gathering them: where links differ much, uneven shares can be faster.
/// For all-to-all it is a bound that cannot be reached on every graph.
pub fn optimum_us(
    collective: &Collective<'_>,
    wire_per_byte: f64,
    limit: u64,
) -> Result<f64, CollectiveError> {
    let hosts = collective.hosts()?;
    let bits = collective.bytes * 8.0 * wire_per_byte;
    if collective.operation == Operation::AllToAll {
        return Ok(all_to_all_s(collective, &hosts, bits) * 1e6);
    }
    let graph = Capacities::of(collective.fabric, &hosts);
    let roots = roots_of(collective.operation, hosts.len());
    let rate = graph.best_rate(roots, limit)?;
    if rate.over == 0 {
        return Err(unreachable(collective, &hosts));
    }
    let rate_bps = rate.over as f64 / rate.under as f64 * graph.unit_bps;
    let twice = if collective.operation == Operation::AllReduce {
        2.0
    } else {
        1.0
    };
    Ok(twice * bits / roots as f64 / rate_bps * 1e6)
}

/// Returns the number of hosts with data for the others.
pub(super) fn roots_of(operation: Operation, hosts: usize) -> usize {
    match operation {
        Operation::Broadcast => 1,
        _ => hosts,
    }
}

fn unreachable(collective: &Collective<'_>, hosts: &[NodeId]) -> CollectiveError {
    let network = Network::of(collective.fabric, Costs::default());
    let towards = network.towards(hosts[0]);
    let lost = hosts
        .iter()
        .find(|&&host| network.hops(host, &towards).is_none());
    let name = |node: NodeId| collective.fabric.name(node).to_owned();
    CollectiveError::NoWay {
        from: name(hosts[0]),
        to: name(*lost.unwrap_or(&hosts[0])),
    }
}

/// The longest of: what each host sends over its links, what those behind one switch send to the
/// rest, and all that is sent, hop by hop, over all links.
fn all_to_all_s(collective: &Collective<'_>, hosts: &[NodeId], bits: f64) -> f64 {
    let fabric = collective.fabric;
    let share = bits / hosts.len() as f64;
    let mut times = vec![hop_time_s(fabric, hosts, share)];
    let switches = fabric.nodes().filter(|(_, node)| !node.role.is_endpoint());
    let groups = switches.map(|(id, _)| with_single_homed(fabric, id));
    for group in hosts.iter().map(|&host| vec![host]).chain(groups) {
        let inside = group
            .iter()
            .filter(|node| fabric.node(**node).role.is_endpoint())
            .count();
        let pairs = inside * (hosts.len() - inside);
        let leaving: f64 = exits(fabric, &group);
        if pairs > 0 {
            times.push(pairs as f64 * share / leaving);
        }
    }
    times.into_iter().fold(0.0, f64::max)
}

/// A switch and its neighbours that have no other link.
fn with_single_homed(fabric: &Fabric, switch: NodeId) -> Vec<NodeId> {
    let neighbours = fabric
        .links_of(switch)
        .iter()
        .map(|&link| fabric.link(link).far(switch).node);
    let mut members = neighbours
        .filter(|&it| fabric.links_of(it).len() == 1)
        .collect::<Vec<_>>();
    members.push(switch);
    members
}

fn exits(fabric: &Fabric, group: &[NodeId]) -> f64 {
    let cables = group.iter().flat_map(|&node| {
        let links = fabric.links_of(node).iter();
        links.map(move |&link| (fabric.link(link).far(node).node, fabric.link(link).rate))
    });
    let leaving = cables.filter(|(far, _)| !group.contains(far));
    leaving.map(|(_, rate)| rate.bits_per_s() as f64).sum()
}

fn hop_time_s(fabric: &Fabric, hosts: &[NodeId], share: f64) -> f64 {
    let network = Network::of(fabric, Costs::default());
    let capacity: f64 = network
        .capacities()
        .iter()
        .map(|rate| rate.bits_per_s() as f64)
        .sum();
    let mut compass = Compass::default();
    let hops = hosts.iter().map(|&to| {
        let towards = compass.towards(&network, to);
        let hops = hosts
            .iter()
            .filter_map(|&from| network.hops(from, &towards));
        hops.map(f64::from).sum::<f64>()
    });
    hops.sum::<f64>() * share / capacity
}
