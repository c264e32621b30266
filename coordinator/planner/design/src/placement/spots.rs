//! Attachment points of hosts, and the links between them.
//!
//! Hosts with links of the same rates to the same neighbours share a *spot*; on rails, hosts with training NICs of the
//! same rails and rates at the same leaves. Traffic between spots is spread evenly over rails, from leaf to leaf, and
//! over equal-cost links, as hashing does on average, whatever their rates. Links with equal shares of all traffic are
//! merged into one, at the lowest of their rates.

use std::collections::BTreeMap;

use reweave_common::fabric::Fabric;
use reweave_common::ids::{LinkId, NicId, NodeId};
use reweave_common::snapshot::Hop;
use reweave_repair::paths::{Atlas, HopIndex};

use super::ports::{self, HostPorts};

/// Above this number of spots, only the total traffic of each spot is judged: there are too many pairs.
const MAX_SPOTS: usize = 512;
/// Shares that differ by less are the same.
pub(super) const SHARE_RESOLUTION: f64 = 1e-9;

pub(super) struct Spots {
    /// Spot of each host.
    pub(super) of_host: Vec<usize>,
    /// Ports of the hosts of each spot.
    ports: Vec<HostPorts>,
    pub(super) count: usize,
    /// The number of links, with equal ones counted once.
    pub(super) links: usize,
    /// Crossed links and time per byte, by pair of spots.
    ways: Vec<Vec<(usize, f64)>>,
    /// On rails, share of the traffic that leaves its leaf, by pair of spots.
    crossing: Vec<f64>,
}

impl Spots {
    pub(super) fn new(fabric: &Fabric, hosts: &[NodeId]) -> Self {
        let mut numbers: BTreeMap<Surroundings, usize> = BTreeMap::new();
        let mut first = Vec::new();
        let mut of_host = Vec::new();
        for &host in hosts {
            let next = numbers.len();
            let spot = *numbers.entry(surroundings(fabric, host)).or_insert(next);
            if spot == next {
                first.push(host);
            }
            of_host.push(spot);
        }
        let judged = if first.len() <= MAX_SPOTS {
            &first[..]
        } else {
            &[]
        };
        let (links, ways) = alike(fabric, spread(fabric, judged));
        let is_railed = fabric.has_declared_nics();
        let crossing = pairs(judged).filter(|_| is_railed);
        Self {
            of_host,
            ports: ports::of_spots(fabric, &first, judged),
            count: first.len(),
            links,
            ways,
            crossing: crossing.map(|ends| leaving_share(fabric, ends)).collect(),
        }
    }

    /// Returns the time of the slowest port of a host, if it exchanges these bytes with hosts of these spots in one
    /// direction.
    pub(super) fn port_s(
        &self,
        spot: usize,
        exchanged: impl Iterator<Item = (usize, f64)> + Clone,
    ) -> f64 {
        self.ports[spot].slowest_s(exchanged)
    }

    /// Returns the share of the traffic between two spots that leaves the leaf of its sender.
    pub(super) fn crossing(&self, [from, to]: [usize; 2]) -> f64 {
        let on_rails = self.crossing.get(from * self.count + to).copied();
        on_rails.unwrap_or(if from == to { 0.0 } else { 1.0 })
    }

    pub(super) fn between(&self, [from, to]: [usize; 2]) -> &[(usize, f64)] {
        self.ways.get(from * self.count + to).map_or(&[], |way| way)
    }

    /// Returns the time per byte of the slowest link between two spots, in either direction.
    fn apart(&self, a: usize, b: usize) -> f64 {
        let both = self.between([a, b]).iter().chain(self.between([b, a]));
        both.map(|(_, s_per_byte)| *s_per_byte).fold(0.0, f64::max)
    }

    /// All of them, each followed by the one that is least apart from it and not there yet.
    pub(super) fn chain(&self, start: usize) -> Vec<usize> {
        let mut left: Vec<_> = (0..self.count).filter(|&spot| spot != start).collect();
        let mut chain = vec![start];
        let mut last = start;
        let closer = |last: usize| {
            move |a: &usize, b: &usize| {
                let [to_a, to_b] = [*a, *b].map(|spot| self.apart(last, spot));
                to_a.total_cmp(&to_b).then(a.cmp(b))
            }
        };
        while let Some(next) = left.iter().copied().min_by(closer(last)) {
            left.retain(|&spot| spot != next);
            chain.push(next);
            last = next;
        }
        chain
    }
}

/// Neighbour and rate of each link, in bits per second; on rails, also rail and plane of each NIC.
type Surroundings = Vec<(NodeId, u64, Option<(u16, Option<u16>)>)>;

fn surroundings(fabric: &Fabric, host: NodeId) -> Surroundings {
    let neighbour = |link: LinkId| {
        let link = fabric.link(link);
        (link.far(host).node, link.rate.bits_per_s())
    };
    let place = |&id: &NicId| {
        let nic = fabric.nic(id);
        let (leaf, rate) = neighbour(nic.link);
        (leaf, rate, Some((nic.rail, nic.plane)))
    };
    let nics = ports::railed(fabric, host);
    let mut surroundings: Vec<_> = if nics.is_empty() {
        let links = fabric.links_of(host).iter().map(|&link| neighbour(link));
        links.map(|(node, rate)| (node, rate, None)).collect()
    } else {
        nics.iter().map(place).collect()
    };
    surroundings.sort_unstable();
    surroundings
}

pub(super) fn rate(fabric: &Fabric, link: LinkId) -> f64 {
    fabric.link(link).rate.bits_per_s() as f64 / 8.0
}

/// Returns the share of the traffic of two hosts on rails that goes from one leaf to another.
fn leaving_share(fabric: &Fabric, [from, to]: [NodeId; 2]) -> f64 {
    let pairs = fabric.rail_pairs(from, to);
    let leaves = pairs.iter().filter(|pair| {
        let [from, to] = pair.map(|nic| fabric.leaf_of(nic));
        from != to
    });
    match pairs.len() {
        0 if from == to => 0.0,
        0 => 1.0,
        count => leaves.count() as f64 / count as f64,
    }
}

/// Returns all ordered pairs, each of a node with itself too.
fn pairs(nodes: &[NodeId]) -> impl Iterator<Item = [NodeId; 2]> {
    let from = nodes.iter();
    from.flat_map(move |&from| nodes.iter().map(move |&to| [from, to]))
}

/// Share of the traffic between two spots that crosses each hop.
type Shares = Vec<(HopIndex, f64)>;

fn spread(fabric: &Fabric, first: &[NodeId]) -> Vec<Shares> {
    let mut spreading = Spreading {
        atlas: Atlas::new(fabric),
        choices: BTreeMap::new(),
    };
    pairs(first).map(|ends| spreading.shares(ends)).collect()
}

struct Spreading<'f> {
    atlas: Atlas<'f>,
    /// Next hops by node and destination.
    choices: BTreeMap<(NodeId, NodeId), Vec<LinkId>>,
}

impl Spreading<'_> {
    /// Returns the shares of the traffic between two hosts, without the ports of either host. Each rail has an equal
    /// share from leaf to leaf.
    fn shares(&mut self, ends: [NodeId; 2]) -> Shares {
        let fabric = self.atlas.fabric;
        let mut shares = BTreeMap::new();
        let [from, to] = ends;
        let rails = fabric.rail_pairs(from, to);
        if rails.is_empty() {
            self.add_shares(ends, 1.0, &mut shares);
        }
        for pair in &rails {
            if let [Some(from), Some(to)] = pair.map(|nic| fabric.leaf_of(nic)) {
                self.add_shares([from, to], 1.0 / rails.len() as f64, &mut shares);
            }
        }
        shares.into_iter().collect()
    }

    /// Adds a share that is spread over all shortest paths, without the ports of hosts at either end.
    fn add_shares(
        &mut self,
        [from, to]: [NodeId; 2],
        share: f64,
        shares: &mut BTreeMap<HopIndex, f64>,
    ) {
        let fabric = self.atlas.fabric;
        let is_own =
            |node: NodeId| [from, to].contains(&node) && !fabric.node(node).role.forwards();
        let mut front = BTreeMap::from([(from, share)]);
        while let Some((at, share)) = front.pop_first() {
            if at == to {
                continue;
            }
            let atlas = &mut self.atlas;
            let links = self
                .choices
                .entry((at, to))
                .or_insert_with(|| atlas.choices(at, to));
            for &link in &*links {
                let each = share / links.len() as f64;
                let next = fabric.link(link).far(at).node;
                *front.entry(next).or_default() += each;
                if !is_own(at) && !is_own(next) {
                    let hop = self.atlas.index(Hop { from: at, link });
                    *shares.entry(hop).or_default() += each;
                }
            }
        }
    }
}

/// Merges links with equal shares. Returns the number of merged links, and the time per byte on each.
fn alike(fabric: &Fabric, spread: Vec<Shares>) -> (usize, Vec<Vec<(usize, f64)>>) {
    let (count, link_of) = classes(2 * fabric.links().len(), &spread);
    let mut narrowest = vec![f64::INFINITY; count];
    for (hop, &link) in link_of.iter().enumerate() {
        let rate = rate(fabric, LinkId::from_index(hop / 2));
        narrowest[link] = narrowest[link].min(rate);
    }
    let ways = spread.into_iter().map(|shares| {
        let links = shares.into_iter().map(|(hop, share)| {
            let link = link_of[hop];
            (link, share / narrowest[link])
        });
        let way: BTreeMap<_, _> = links.collect();
        way.into_iter().collect()
    });
    (count, ways.collect())
}

/// Returns the number of classes, and the class of each hop: hops of a class have equal shares on every path.
fn classes(hops: usize, spread: &[Shares]) -> (usize, Vec<usize>) {
    let (mut class, mut members) = (vec![0; hops], vec![hops]);
    for shares in spread {
        let mut parts: BTreeMap<(usize, u64), Vec<HopIndex>> = BTreeMap::new();
        for &(hop, share) in shares {
            let share = (share / SHARE_RESOLUTION).round() as u64;
            parts.entry((class[hop], share)).or_default().push(hop);
        }
        for ((old, _), part) in parts {
            if part.len() < members[old] {
                part.iter().for_each(|&hop| class[hop] = members.len());
                members[old] -= part.len();
                members.push(part.len());
            }
        }
    }
    (members.len(), class)
}
