//! Flows chosen for the links they cross.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use reweave_common::fabric::{Fabric, Role};
use reweave_common::ids::NodeId;
use reweave_common::probing::PROBE_PORT;
use reweave_common::snapshot::Hop;

use super::ProbeFlow;
use super::choices::{Choices, Step};
use super::distances::Distances;
use super::tally::{Tally, layer, least};
use crate::paths::ecmp::{Ecmp, Fields};
use crate::paths::{Atlas, HopIndex};

/// Ports that no program draws by itself, since kernels draw from higher ones.
const FIRST_PORT: u16 = 7400;
const LAST_PORT: u16 = 32_767;
/// Maximum number of ports tried per link: all of them miss one of 64 paths once in ten thousand.
const MAX_TRIES: usize = 600;
/// Additional tries per used port, because the remaining ports lead elsewhere.
const TRIES_PER_TAKEN_PORT: usize = 8;
/// The best of this many that lead over the link is taken: of few where there is much to be crossed, so that the time
/// stays bounded.
const MAX_COMPARED: usize = 32;
const MIN_COMPARED: usize = 8;
const MAX_COMPARED_TOTAL: usize = 2_000_000;
/// Maximum number of hosts that are considered as the other end of a flow.
const MAX_PARTNERS: usize = 64;
/// Maximum number of other ends that are tried behind a link between relays.
const MAX_RELAYS: usize = 1024;
const MAX_ENDS: usize = 4;
/// Maximum number of hosts that are tried as the start of a flow.
const MAX_STARTS: usize = 8;
/// Maximum number of less likely pairs of ends that are tried in total.
const MAX_PAIRS: usize = 10_000;
const UDP_PROTOCOL: u8 = 17;
const MAX_HOPS: usize = 64;
/// Typical maximum number of hops of a round trip.
const TYPICAL_HOPS: usize = 12;

/// Flows of probes, and what they cross.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cover {
    pub flows: Vec<ProbeFlow>,
    /// No fewer flows could do it.
    pub least: usize,
    /// Directions of links that no flow was found for.
    pub uncovered: Vec<Hop>,
}

/// Flows between hosts that cross each direction of each link this many times at least.
pub fn cover(fabric: &Fabric, ecmp: &Ecmp, times: u32) -> Cover {
    let mut covering = Covering::new(fabric, ecmp, times);
    let order = covering.order();
    let mut cover = Cover {
        least: least(&covering.atlas, &mut covering.distances, times),
        ..Cover::default()
    };
    for hop in order {
        while covering.tally.missing[hop] > 0 {
            let found = covering.flow_among_relays(hop);
            let found = found.or_else(|| covering.flow_over(hop));
            let Some((flow, hops)) = found.or_else(|| covering.flow_by_any(hop)) else {
                cover.uncovered.push(covering.atlas.hop(hop));
                break;
            };
            covering.take(flow, &hops);
            cover.flows.push(flow);
        }
    }
    // A hop without a flow may have been crossed by a later flow to another hop.
    cover
        .uncovered
        .retain(|&hop| covering.tally.missing[covering.atlas.index(hop)] > 0);
    cover
}

/// A hop that a flow is to cross.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    hop: HopIndex,
    /// Number of hops before it, if equal on all shortest paths: most paths miss it, and need not be followed to their
    /// end.
    after: Option<usize>,
}

struct Covering<'f, 'e> {
    atlas: Atlas<'f>,
    ecmp: &'e Ecmp,
    tiers: Vec<u32>,
    hosts: Vec<NodeId>,
    tally: Tally,
    /// Number of flows that begin or end at each node.
    busy: Vec<u32>,
    /// Closest hosts of each node.
    near: Vec<Vec<NodeId>>,
    choices: Choices,
    distances: Distances,
    most_compared: usize,
    /// Remaining number of additional pairs of ends.
    left_to_try: usize,
    /// Flows that are sent already.
    taken: BTreeSet<ProbeFlow>,
    /// Position of the next partner.
    turn: usize,
    /// Hosts whose own links are to be crossed still, and some others.
    needy: Vec<NodeId>,
}

impl<'f, 'e> Covering<'f, 'e> {
    fn new(fabric: &'f Fabric, ecmp: &'e Ecmp, times: u32) -> Self {
        let atlas = Atlas::new(fabric);
        let hosts: Vec<_> = fabric.endpoints().collect();
        let count = fabric.nodes().len();
        let tiers = atlas.tiers();
        Self {
            near: near(fabric, &tiers),
            needy: hosts.clone(),
            ecmp,
            tally: Tally::new(&atlas, &tiers, times),
            distances: Distances::new(&atlas),
            busy: vec![0; count],
            tiers,
            hosts,
            choices: Choices::new(&atlas),
            most_compared: (MAX_COMPARED_TOTAL / atlas.hops().max(1))
                .clamp(MIN_COMPARED, MAX_COMPARED),
            left_to_try: MAX_PAIRS,
            atlas,
            taken: BTreeSet::new(),
            turn: 0,
        }
    }

    /// Returns the hops in search order. Hops from hosts to switches come first, because any port leads there, and the
    /// flow that crosses the most other hops is chosen. Then hops furthest from hosts, because the path there crosses
    /// the others. Among relays, hops that leave the edge come first, because paths continue over the middle.
    fn order(&mut self) -> Vec<HopIndex> {
        let mut hops: Vec<_> = (0..self.atlas.hops()).collect();
        hops.sort_by_cached_key(|&hop| {
            let [from, to] = layer(&self.atlas, &self.tiers, hop);
            let leaves_a_host = from == 0 && to > 0;
            let reach = if self.is_among_relays(hop) {
                self.distances.furthest(self.atlas.hop(hop).from)
            } else {
                0
            };
            let [height, reach] = [from.max(to), reach].map(Reverse);
            (!leaves_a_host, height, from > to, reach, hop)
        });
        hops
    }

    fn is_among_relays(&self, hop: HopIndex) -> bool {
        let over = self.atlas.hop(hop);
        let ends = [over.from, self.atlas.far(over)];
        ends.iter()
            .all(|&end| self.atlas.fabric.node(end).role == Role::Relay)
    }

    /// Returns a flow that begins with this hop between relays, and continues to the host with the most uncrossed hops.
    fn flow_among_relays(&mut self, hop: HopIndex) -> Option<(ProbeFlow, Vec<HopIndex>)> {
        if !self.is_among_relays(hop) {
            return None;
        }
        let over = self.atlas.hop(hop);
        let mut best: Option<(u32, (ProbeFlow, Vec<HopIndex>))> = None;
        for (length, to) in self.beyond(over) {
            // No nearer host has more than that there and back.
            if best.as_ref().is_some_and(|(gain, _)| *gain >= 2 * length) {
                break;
            }
            let Some((flow, hops)) = self.best_port([over.from, to], over) else {
                continue;
            };
            let gain = self.tally.gain(&hops);
            if best.as_ref().is_none_or(|(most, _)| gain > *most) {
                best = Some((gain, (flow, hops)));
            }
        }
        best.map(|(_, found)| found)
    }

    /// Returns some nodes for which the hop is the first of a shortest path, with the length: furthest first, then
    /// those with the fewest flows.
    fn beyond(&mut self, over: Hop) -> Vec<(u32, NodeId)> {
        let (mut ends, count) = (Vec::new(), self.hosts.len());
        let stride = stride(count);
        self.turn = (self.turn + 1) % count;
        for step in 0..count.min(MAX_RELAYS) {
            let to = self.hosts[(self.turn + step * stride) % count];
            if let Some(length) = self.length_over(over, to) {
                ends.push((Reverse(length), self.busy[to.index()], to));
            }
        }
        if ends.len() > MAX_ENDS {
            ends.select_nth_unstable(MAX_ENDS);
            ends.truncate(MAX_ENDS);
        }
        ends.sort_unstable();
        ends.into_iter()
            .map(|(Reverse(length), _, to)| (length, to))
            .collect()
    }

    /// Returns the length of the shortest path that begins with this hop, if any. Distances are faster to compute than
    /// choices for this number of ends.
    fn length_over(&mut self, over: Hop, to: NodeId) -> Option<u32> {
        let length = self.distances.between(to, self.atlas.far(over))? + 1;
        let is_shortest = self.distances.between(to, over.from) == Some(length);
        (is_shortest && length as usize <= MAX_HOPS).then_some(length)
    }

    /// Returns a flow that crosses this hop, from the first host with a suitable port.
    fn flow_over(&mut self, hop: HopIndex) -> Option<(ProbeFlow, Vec<HopIndex>)> {
        let over = self.atlas.hop(hop);
        let mut starts = self.starts(over);
        for _ in 0..MAX_STARTS {
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

    /// Tries other pairs of ends if no likely one crosses the hop, within the limit, because switches may never choose
    /// the hop.
    fn flow_by_any(&mut self, hop: HopIndex) -> Option<(ProbeFlow, Vec<HopIndex>)> {
        let over = self.atlas.hop(hop);
        let ends = [over.from, self.atlas.far(over)];
        let starts = match self.atlas.fabric.node(over.from).role {
            Role::Host => vec![over.from],
            _ => self.leading_away(self.hosts.clone(), ends),
        };
        let count = self.hosts.len();
        let pairs = starts.into_iter();
        let pairs = pairs.flat_map(|from| (0..count).map(move |place| (from, place)));
        for (from, place) in pairs {
            let to = self.hosts[place];
            if to == from || !self.leads(over, to) {
                continue;
            }
            self.left_to_try = self.left_to_try.checked_sub(1)?;
            let found = self.best_port([from, to], over);
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
        let mut hops = Vec::with_capacity(TYPICAL_HOPS);
        let over = Wanted {
            hop: self.atlas.index(over),
            after: self.distance(from, over.from).map(|it| it as usize),
        };
        let taken = self.taken(from, to);
        let ports = (FIRST_PORT..=LAST_PORT).filter(|port| taken.binary_search(port).is_err());
        let most_tries = MAX_TRIES + TRIES_PER_TAKEN_PORT * taken.len();
        let mut compared = 0;
        for (nth, source_port) in ports.take(most_tries).enumerate() {
            let flow = ProbeFlow {
                from,
                to,
                source_port,
            };
            if !self.crosses(flow, over, &mut hops) {
                continue;
            }
            let gain = self.tally.gain(&hops);
            let is_most = gain == self.tally.most_gain(&hops);
            if best.as_ref().is_none_or(|(most, ..)| gain > *most) {
                best = Some((gain, flow, hops.clone()));
            }
            compared += 1;
            if is_most || compared == self.most_compared || nth > most_tries / 2 {
                break;
            }
        }
        best.map(|(_, flow, hops)| (flow, hops))
    }

    /// Returns hosts whose shortest paths may cross the hop: those near it, else any.
    fn starts(&mut self, over: Hop) -> Vec<NodeId> {
        let ends = [over.from, self.atlas.far(over)];
        let near = self.near[over.from.index()].clone();
        let starts = self.leading_away(near, ends);
        if starts.is_empty() {
            self.leading_away(self.hosts.clone(), ends)
        } else {
            starts
        }
    }

    fn leading_away(&mut self, mut hosts: Vec<NodeId>, ends: [NodeId; 2]) -> Vec<NodeId> {
        hosts.retain(|&host| match ends.map(|end| self.distance(host, end)) {
            [Some(from), Some(far)] => far > from,
            _ => host != ends[1],
        });
        hosts
    }

    /// Returns the other end: a host behind the hop, with as many uncrossed links towards it as possible.
    fn partner(&mut self, from: NodeId, over: Hop) -> Option<NodeId> {
        let far = self.atlas.far(over);
        if self.atlas.fabric.node(far).role != Role::Switch {
            return (far != from).then_some(far);
        }
        if let Some(to) = self.partner_in_need(from, over) {
            return Some(to);
        }
        let (mut best, count) = (None, self.hosts.len());
        let stride = stride(count);
        for step in 0..count {
            let to = self.hosts[(self.turn + step * stride) % count];
            if to == from || !self.leads(over, to) {
                continue;
            }
            let door = self.atlas.door(to);
            let arrives = self.atlas.fabric.links_between(far, door).next();
            let missing = arrives.map_or(0, |link| {
                self.tally.missing[self.atlas.index(Hop { from: far, link })]
            });
            let rank = (missing.min(1), u32::MAX - self.busy[to.index()]);
            if best.is_none_or(|(most, _)| rank > most) {
                best = Some((rank, to));
            }
            if missing > 0 || step > MAX_PARTNERS && best.is_some() {
                break;
            }
        }
        self.turn = (self.turn + 1) % count;
        best.map(|(_, to)| to)
    }

    /// Returns one of the furthest hosts whose own links also need flows, for a flow that begins with this hop and so
    /// crosses every layer.
    fn partner_in_need(&mut self, from: NodeId, over: Hop) -> Option<NodeId> {
        let (mut best, mut step) = (None, 0);
        self.turn += 1;
        let mut stride_of_needy = stride(self.needy.len());
        while over.from == from && step < MAX_PARTNERS.min(self.needy.len()) {
            let count = self.needy.len();
            let place = (self.turn + step * stride_of_needy) % count;
            let to = self.needy[place];
            if !self.tally.is_in_need(to) {
                self.needy.swap_remove(place);
                stride_of_needy = stride(self.needy.len());
                continue;
            }
            step += 1;
            let far = self.distance(to, self.atlas.far(over));
            let rank = (far, u32::MAX - self.busy[to.index()]);
            if to != from && best.is_none_or(|(most, _)| rank > most) && self.leads(over, to) {
                best = Some((rank, to));
            }
        }
        best.map(|(_, to)| to)
    }

    /// Returns the distance of a host from a switch or from itself.
    fn distance(&mut self, host: NodeId, node: NodeId) -> Option<u32> {
        match self.atlas.fabric.node(node).role {
            Role::Switch => self.distances.between(host, node),
            _ => (host == node).then_some(0),
        }
    }

    fn leads(&mut self, over: Hop, to: NodeId) -> bool {
        let hop = self.atlas.index(over);
        self.choices(over.from, to).iter().any(|it| it.hop == hop)
    }

    fn choices(&mut self, at: NodeId, to: NodeId) -> &[Step] {
        self.choices.of(&mut self.atlas, at, to)
    }

    /// Whether a flow crosses the wanted hop on its way there. Its hops in both directions are left in `hops`.
    fn crosses(&mut self, flow: ProbeFlow, over: Wanted, hops: &mut Vec<HopIndex>) -> bool {
        let [from, to] = [flow.from, flow.to];
        let ports = [flow.source_port, PROBE_PORT];
        hops.clear();
        let goes = self.goes([from, to], ports, over.after.map(|it| (it, over.hop)), hops);
        let back = [PROBE_PORT, flow.source_port];
        goes && hops.contains(&over.hop) && self.goes([to, from], back, None, hops)
    }

    /// Adds the path to `hops`. Returns whether there is one, with the wanted hop after this number of hops.
    fn goes(
        &mut self,
        [from, to]: [NodeId; 2],
        ports: [u16; 2],
        due: Option<(usize, HopIndex)>,
        hops: &mut Vec<HopIndex>,
    ) -> bool {
        let ecmp = self.ecmp;
        let label = ecmp.label(self.fields([from, to], ports));
        let mut at = from;
        while at != to && hops.len() < 2 * MAX_HOPS {
            let steps = self.choices(at, to);
            let choice = ecmp.choose(at.index() as u32, label, steps.len());
            let Some(&step) = steps.get(choice) else {
                return false;
            };
            if due.is_some_and(|(after, over)| after == hops.len() && step.hop != over) {
                return false;
            }
            hops.push(step.hop);
            at = step.far;
        }
        at == to
    }

    fn fields(&self, ends: [NodeId; 2], [source_port, destination_port]: [u16; 2]) -> Fields {
        let fabric = self.atlas.fabric;
        let is_hashed = self.ecmp.hashes_addresses();
        let [source, destination] = ends.map(|node| {
            let address = is_hashed.then(|| fabric.address(node)).flatten();
            address.map_or(node.index() as u32, Ipv4Addr::to_bits)
        });
        Fields {
            source,
            destination,
            source_port,
            destination_port,
            protocol: UDP_PROTOCOL,
        }
    }

    fn take(&mut self, flow: ProbeFlow, hops: &[HopIndex]) {
        self.tally.cross(hops);
        self.taken.insert(flow);
        self.busy[flow.from.index()] += 1;
        self.busy[flow.to.index()] += 1;
    }
}

/// A step that meets all of this many, spread widely.
fn stride(count: usize) -> usize {
    let about = count * 5 / 13;
    (about.max(1)..)
        .find(|&step| gcd(step, count) == 1)
        .unwrap_or(1)
}

fn gcd(mut a: usize, mut b: usize) -> usize {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Returns the hosts below or at each node.
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
