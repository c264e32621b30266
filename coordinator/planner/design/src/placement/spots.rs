//! Attachment points of hosts, and the links between them.
//!
//! Hosts with links of the same rates to the same neighbours share a *spot*. Traffic between spots is spread evenly
//! over equal-cost links, as hashing does on average, whatever their rates. Links with equal shares of all traffic are
//! merged into one, at the lowest of their rates.

use std::collections::BTreeMap;

use reweave_common::fabric::Fabric;
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::snapshot::Hop;
use reweave_repair::paths::{Atlas, HopIndex};

/// Above this number of spots, only the total traffic of each spot is judged: there are too many pairs.
const MAX_SPOTS: usize = 512;
/// Shares that differ by less are the same.
const SHARE_RESOLUTION: f64 = 1e-9;

pub(super) struct Spots {
    /// Spot of each host, and the rate of its ports in bytes per second.
    pub(super) of_host: Vec<usize>,
    pub(super) ports: Vec<f64>,
    pub(super) count: usize,
    /// The number of links, with equal ones counted once.
    pub(super) links: usize,
    /// Crossed links and time per byte, by pair of spots.
    ways: Vec<Vec<(usize, f64)>>,
}

impl Spots {
    pub(super) fn new(fabric: &Fabric, hosts: &[NodeId]) -> Self {
        let mut numbers: BTreeMap<Vec<(NodeId, u64)>, usize> = BTreeMap::new();
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
        let spread = match first.len() {
            ..=MAX_SPOTS => spread(fabric, &first),
            _ => Vec::new(),
        };
        let (links, ways) = alike(fabric, spread);
        Self {
            of_host,
            ports: hosts.iter().map(|&host| port_rate(fabric, host)).collect(),
            count: first.len(),
            links,
            ways,
        }
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

fn surroundings(fabric: &Fabric, host: NodeId) -> Vec<(NodeId, u64)> {
    let links = fabric.links_of(host).iter().map(|&link| fabric.link(link));
    let neighbour =
        |link: &reweave_common::fabric::Link| (link.far(host).node, link.rate.bits_per_s());
    let mut surroundings: Vec<_> = links.map(neighbour).collect();
    surroundings.sort_unstable();
    surroundings
}

/// Hashing gives each port as much, however wide it is.
fn port_rate(fabric: &Fabric, host: NodeId) -> f64 {
    let links = fabric.links_of(host);
    let rates = links.iter().map(|&link| rate(fabric, link));
    rates.reduce(f64::min).unwrap_or(0.0) * links.len() as f64
}

fn rate(fabric: &Fabric, link: LinkId) -> f64 {
    fabric.link(link).rate.bits_per_s() as f64 / 8.0
}

/// Share of the traffic between two spots that crosses each hop.
type Shares = Vec<(HopIndex, f64)>;

fn spread(fabric: &Fabric, first: &[NodeId]) -> Vec<Shares> {
    let mut spreading = Spreading {
        atlas: Atlas::new(fabric),
        choices: BTreeMap::new(),
    };
    let pairs = first
        .iter()
        .flat_map(|&from| first.iter().map(move |&to| [from, to]));
    pairs.map(|ends| spreading.shares(ends)).collect()
}

struct Spreading<'f> {
    atlas: Atlas<'f>,
    /// Next hops by node and destination.
    choices: BTreeMap<(NodeId, NodeId), Vec<LinkId>>,
}

impl Spreading<'_> {
    /// Returns the shares of the traffic between two hosts, without the ports of either host.
    fn shares(&mut self, [from, to]: [NodeId; 2]) -> Shares {
        let fabric = self.atlas.fabric;
        let is_own =
            |node: NodeId| [from, to].contains(&node) && !fabric.node(node).role.forwards();
        let mut shares: BTreeMap<HopIndex, f64> = BTreeMap::new();
        let mut front = BTreeMap::from([(from, 1.0)]);
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
        shares.into_iter().collect()
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
