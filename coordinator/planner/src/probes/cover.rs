//! Flows chosen for the links they cross.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::fabric::{Fabric, Role};
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::probing::PROBE_PORT;
use reweave_common::routes::hops_to;
use reweave_common::snapshot::Hop;

use super::ProbeFlow;
use crate::paths::{Atlas, HopIndex};
use crate::sim::ecmp::{Ecmp, Fields};

/// Ports that no program draws by itself, since kernels draw from higher ones.
const FIRST_PORT: u16 = 7400;
const LAST_PORT: u16 = 32_767;
/// So many are tried for one link: one of 64 ways is missed by all of them once in ten thousand.
const MOST_TRIES: usize = 600;
/// So many more for each port that is taken: those left over lead elsewhere.
const MORE_TRIES: usize = 8;
/// So many hosts are looked at as the other end of a flow.
const MOST_PARTNERS: usize = 64;
/// So many hosts are tried as the beginning of a flow.
const MOST_STARTS: usize = 8;
const UDP: u8 = 17;
const MOST_HOPS: usize = 64;

/// Flows of probes, and what they cross.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cover {
    pub flows: Vec<ProbeFlow>,
    /// No fewer flows could do it: of any layer of links one crosses two at most, there and back.
    pub least: usize,
    /// Directions of links that no flow was found for.
    pub uncovered: Vec<Hop>,
}

/// Flows between hosts that cross each direction of each link so many times at least.
pub fn cover(fabric: &Fabric, ecmp: &Ecmp, times: u32) -> Cover {
    let mut covering = Covering::new(fabric, ecmp, times);
    let order = covering.order();
    let mut cover = Cover {
        least: least(&covering.atlas, times),
        ..Cover::default()
    };
    for hop in order {
        while covering.missing[hop] > 0 {
            let Some((flow, hops)) = covering.flow_over(hop) else {
                cover.uncovered.push(covering.atlas.hop(hop));
                break;
            };
            covering.take(flow, &hops);
            cover.flows.push(flow);
        }
    }
    cover
}

/// Of any layer of links a flow crosses two at most, there and back.
pub(super) fn least(atlas: &Atlas<'_>, times: u32) -> usize {
    let tiers = atlas.tiers();
    let mut of_layer: BTreeMap<[u32; 2], usize> = BTreeMap::new();
    for hop in 0..atlas.hops() {
        *of_layer.entry(layer(atlas, &tiers, hop)).or_default() += times as usize;
    }
    let least = of_layer.into_values().map(|times| times.div_ceil(2));
    least.max().unwrap_or(0)
}

fn layer(atlas: &Atlas<'_>, tiers: &[u32], hop: HopIndex) -> [u32; 2] {
    let hop = atlas.hop(hop);
    [hop.from, atlas.far(hop)].map(|node| tiers[node.index()])
}

struct Covering<'f, 'e> {
    atlas: Atlas<'f>,
    ecmp: &'e Ecmp,
    tiers: Vec<u32>,
    hosts: Vec<NodeId>,
    /// By hop: how many times more it is to be crossed.
    missing: Vec<u32>,
    /// By node: how many flows begin or end there.
    busy: Vec<u32>,
    /// By node: the hosts closest to it.
    near: Vec<Vec<NodeId>>,
    choices: BTreeMap<(NodeId, NodeId), Vec<LinkId>>,
    /// By switch: how far everybody is.
    distances: BTreeMap<NodeId, Vec<Option<u32>>>,
    /// Flows that are sent already.
    taken: BTreeSet<ProbeFlow>,
    /// Where to look for a partner next.
    turn: usize,
}

impl<'f, 'e> Covering<'f, 'e> {
    fn new(fabric: &'f Fabric, ecmp: &'e Ecmp, times: u32) -> Self {
        let atlas = Atlas::new(fabric);
        let hosts: Vec<_> = fabric.endpoints().collect();
        let count = fabric.nodes().len();
        let tiers = atlas.tiers();
        Self {
            near: near(fabric, &tiers),
            ecmp,
            missing: vec![times; atlas.hops()],
            busy: vec![0; count],
            tiers,
            hosts,
            atlas,
            choices: BTreeMap::new(),
            distances: BTreeMap::new(),
            taken: BTreeSet::new(),
            turn: 0,
        }
    }

    /// What is furthest from the hosts first: on the way there, the rest is crossed as well.
    fn order(&self) -> Vec<HopIndex> {
        let mut hops: Vec<_> = (0..self.missing.len()).collect();
        hops.sort_by_key(|&hop| {
            let [from, to] = layer(&self.atlas, &self.tiers, hop);
            (u32::MAX - from.max(to), from > to, hop)
        });
        hops
    }

    /// A flow that crosses this hop on its way there, from the first host that finds a port for one.
    fn flow_over(&mut self, hop: HopIndex) -> Option<(ProbeFlow, Vec<HopIndex>)> {
        let over = self.atlas.hop(hop);
        let mut starts = self.starts(over);
        for _ in 0..MOST_STARTS {
            let busy = |place: &usize| self.busy[starts[*place].index()];
            let least_busy = (0..starts.len()).min_by_key(busy)?;
            let from = starts.swap_remove(least_busy);
            let to = self.partner(from, over);
            let found = to.and_then(|to| self.best_port([from, to], over));
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// The ports by which these are probed already, in rising order.
    fn taken(&self, from: NodeId, to: NodeId) -> Vec<u16> {
        let [first, last] = [0, u16::MAX].map(|source_port| ProbeFlow {
            from,
            to,
            source_port,
        });
        let taken = self.taken.range(first..=last);
        taken.map(|flow| flow.source_port).collect()
    }

    /// The port by which as much else that is missing is crossed as can be.
    fn best_port(
        &mut self,
        [from, to]: [NodeId; 2],
        over: Hop,
    ) -> Option<(ProbeFlow, Vec<HopIndex>)> {
        let mut best: Option<(u32, ProbeFlow, Vec<HopIndex>)> = None;
        let taken = self.taken(from, to);
        let ports = (FIRST_PORT..=LAST_PORT).filter(|port| taken.binary_search(port).is_err());
        let most_tries = MOST_TRIES + MORE_TRIES * taken.len();
        for (nth, source_port) in ports.take(most_tries).enumerate() {
            let flow = ProbeFlow {
                from,
                to,
                source_port,
            };
            let Some(hops) = self.crossed(flow, over) else {
                continue;
            };
            let gain = hops.iter().map(|&hop| self.missing[hop].min(1)).sum();
            let all_wanted = gain == hops.len() as u32;
            if best.as_ref().is_none_or(|(most, ..)| gain > *most) {
                best = Some((gain, flow, hops));
            }
            if all_wanted || nth > most_tries / 2 {
                break;
            }
        }
        best.map(|(_, flow, hops)| (flow, hops))
    }

    /// Hosts whose shortest ways may lead over the hop: those near it, else any.
    fn starts(&mut self, over: Hop) -> Vec<NodeId> {
        let far = self.atlas.far(over);
        for node in [over.from, far] {
            if self.atlas.fabric.node(node).role == Role::Switch {
                let fabric = self.atlas.fabric;
                let distances = self.distances.entry(node);
                distances.or_insert_with(|| hops_to(fabric, node));
            }
        }
        let leads_away = |host: &&NodeId| match [over.from, far].map(|it| self.distances.get(&it)) {
            [Some(from), Some(far)] => far[host.index()] > from[host.index()],
            _ => **host != far,
        };
        let near = self.near[over.from.index()].iter();
        let starts: Vec<_> = near.filter(leads_away).copied().collect();
        match starts.is_empty() {
            true => self.hosts.iter().filter(leads_away).copied().collect(),
            false => starts,
        }
    }

    /// The other end: a host to which the hop is a shortest way, with as many uncrossed links
    /// towards it as can be.
    fn partner(&mut self, from: NodeId, over: Hop) -> Option<NodeId> {
        let far = self.atlas.far(over);
        if self.atlas.fabric.node(far).role != Role::Switch {
            return (far != from).then_some(far);
        }
        let (mut best, count) = (None, self.hosts.len());
        for step in 0..count {
            let to = self.hosts[(self.turn + step * stride(count)) % count];
            if to == from || !self.leads(over, to) {
                continue;
            }
            let door = self.atlas.door(to);
            let arrives = self.atlas.fabric.links_between(far, door).next();
            let missing = arrives.map_or(0, |link| {
                self.missing[self.atlas.index(Hop { from: far, link })]
            });
            let rank = (missing.min(1), u32::MAX - self.busy[to.index()]);
            if best.is_none_or(|(most, _)| rank > most) {
                best = Some((rank, to));
            }
            if missing > 0 || step > MOST_PARTNERS && best.is_some() {
                break;
            }
        }
        self.turn = (self.turn + 1) % count;
        best.map(|(_, to)| to)
    }

    fn leads(&mut self, over: Hop, to: NodeId) -> bool {
        self.choices(over.from, to).contains(&over.link)
    }

    fn choices(&mut self, at: NodeId, to: NodeId) -> &[LinkId] {
        let (door, atlas) = (self.atlas.door(to), &mut self.atlas);
        let key = if at == door { to } else { door };
        let known = self.choices.entry((at, key));
        known.or_insert_with(|| atlas.choices(at, to))
    }

    /// The hops of a flow there and back, if it crosses the one on its way there.
    fn crossed(&mut self, flow: ProbeFlow, over: Hop) -> Option<Vec<HopIndex>> {
        let ends = [flow.from, flow.to];
        let ports = [flow.source_port, PROBE_PORT];
        let there = self.way(ends, ports)?;
        let over = self.atlas.index(over);
        there.contains(&over).then_some(())?;
        let [from, to] = ends;
        let back = self.way([to, from], [PROBE_PORT, flow.source_port])?;
        Some([there, back].concat())
    }

    fn way(&mut self, [from, to]: [NodeId; 2], [sport, dport]: [u16; 2]) -> Option<Vec<HopIndex>> {
        let ecmp = self.ecmp;
        let address = |node: NodeId| match self.atlas.fabric.address(node) {
            Some(address) if ecmp.hashes_addresses() => address.to_bits(),
            _ => node.index() as u32,
        };
        let label = ecmp.label(Fields {
            source: address(from),
            destination: address(to),
            source_port: sport,
            destination_port: dport,
            protocol: UDP,
        });
        let (mut at, mut hops) = (from, Vec::with_capacity(4));
        while at != to && hops.len() < MOST_HOPS {
            let links = self.choices(at, to);
            let link = *links.get(ecmp.choose(at.index() as u32, label, links.len()))?;
            let hop = Hop { from: at, link };
            hops.push(self.atlas.index(hop));
            at = self.atlas.far(hop);
        }
        (at == to).then_some(hops)
    }

    fn take(&mut self, flow: ProbeFlow, hops: &[HopIndex]) {
        for &hop in hops {
            self.missing[hop] = self.missing[hop].saturating_sub(1);
        }
        self.taken.insert(flow);
        self.busy[flow.from.index()] += 1;
        self.busy[flow.to.index()] += 1;
    }
}

/// A step that meets all of so many, spread widely.
fn stride(count: usize) -> usize {
    let gcd = |mut a: usize, mut b: usize| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let about = count * 5 / 13;
    (about.max(1)..)
        .find(|&step| gcd(step, count) == 1)
        .unwrap_or(1)
}

/// By node: the hosts below it, or at it.
fn near(fabric: &Fabric, tiers: &[u32]) -> Vec<Vec<NodeId>> {
    let mut near = vec![Vec::new(); fabric.nodes().len()];
    let mut nodes: Vec<_> = fabric.nodes().map(|(node, _)| node).collect();
    nodes.sort_by_key(|node| tiers[node.index()]);
    for node in nodes {
        if tiers[node.index()] == 0 {
            near[node.index()] = vec![node];
            continue;
        }
        let links = fabric.links_of(node).iter();
        let below = links.map(|&link| fabric.link(link).far(node).node);
        let below = below.filter(|other| tiers[other.index()] < tiers[node.index()]);
        // One of each is enough higher up.
        let some = if tiers[node.index()] == 1 {
            usize::MAX
        } else {
            4
        };
        let hosts = below.flat_map(|other| near[other.index()].iter().copied().take(some));
        near[node.index()] = hosts.collect::<Vec<_>>();
    }
    near
}
