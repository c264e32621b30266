//! The ways between two hosts: those that are given, or else the shortest.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use reweave_common::carriage;
use reweave_common::fabric::Fabric;
use reweave_common::ids::{NodeId, Rank};
use reweave_common::routes;

use super::network::{Network, NetworkError, Spreading, Way};

/// Traffic spreads over no more ways than these; where there are more, the first of them stand for
/// all.
const MOST_WAYS: usize = 64;

/// How far each node is from the hosts that were asked for.
#[derive(Debug, Default)]
pub(super) struct Distances(BTreeMap<NodeId, Rc<[u16]>>);

const UNREACHED: u16 = u16::MAX;

impl Distances {
    fn to(&mut self, fabric: &Fabric, host: NodeId) -> Rc<[u16]> {
        let known = self.0.entry(host).or_insert_with(|| {
            let hops = routes::hops_to(fabric, host).into_iter();
            let short = |hops: u32| u16::try_from(hops).ok();
            hops.map(|hops| hops.and_then(short).unwrap_or(UNREACHED))
                .collect()
        });
        Rc::clone(known)
    }
}

impl Network<'_> {
    /// How traffic of one rank gets to another; no ways where they are the same, or on the same
    /// host with nothing to limit them.
    pub(super) fn ways(&self, from: Rank, to: Rank) -> Result<Vec<Way>, NetworkError> {
        let (a, b) = (self.host(from), self.host(to));
        if a == b {
            return Ok(vec![self.inside(from, to)]);
        }
        match self
            .carriage
            .ways
            .get(&(a, b))
            .filter(|ways| !ways.is_empty())
        {
            Some(given) => self.given(given, [a, b]),
            None => self.shortest(a, b),
        }
    }

    fn inside(&self, from: Rank, to: Rank) -> Way {
        let lanes = match self.inside_lanes {
            Some(first) if from != to => {
                vec![
                    first + 2 * from.index() as u32,
                    first + 2 * to.index() as u32 + 1,
                ]
            }
            _ => Vec::new(),
        };
        Way {
            lanes,
            share: 1.0,
            latency: Duration::ZERO,
        }
    }

    fn given(&self, ways: &[carriage::Way], pair: [NodeId; 2]) -> Result<Vec<Way>, NetworkError> {
        let total: f64 = ways.iter().map(|way| way.weight).sum();
        let each = ways.iter();
        match self.settings.spreading {
            Spreading::Even => each
                .map(|way| self.along(&way.nodes, way.weight / total))
                .collect(),
            Spreading::Hashed { seed } => {
                let point = fraction(hash(seed, pair, pair[0])) * total;
                let mut passed = 0.0;
                let chosen = each.clone().find(|way| {
                    passed += way.weight;
                    point < passed
                });
                let chosen = chosen.unwrap_or(&ways[ways.len() - 1]);
                Ok(vec![self.along(&chosen.nodes, 1.0)?])
            }
        }
    }

    /// The way over these nodes, one after another.
    pub(super) fn along(&self, nodes: &[NodeId], share: f64) -> Result<Way, NetworkError> {
        let pair = [nodes[0], nodes[nodes.len() - 1]];
        let lane = |hop: &[NodeId]| {
            let lanes = self.joined.get(&(hop[0], hop[1]));
            let lanes = lanes.ok_or_else(|| NetworkError::NotLinked {
                from: self.fabric.name(hop[0]).to_owned(),
                to: self.fabric.name(hop[1]).to_owned(),
            })?;
            Ok(self.chosen(lanes, pair, hop[0]))
        };
        let lanes: Vec<_> = nodes.windows(2).map(lane).collect::<Result<_, _>>()?;
        Ok(self.way(lanes, share))
    }

    fn way(&self, lanes: Vec<u32>, share: f64) -> Way {
        let latency = lanes.iter().map(|&lane| self.lanes[lane as usize].latency);
        Way {
            latency: latency.sum(),
            lanes,
            share,
        }
    }

    /// One of several lanes or hops, by the hash of the pair at this node.
    fn chosen<T: Copy>(&self, choices: &[T], pair: [NodeId; 2], at: NodeId) -> T {
        match self.settings.spreading {
            Spreading::Even => choices[0],
            Spreading::Hashed { seed } => {
                choices[(hash(seed, pair, at) % choices.len() as u64) as usize]
            }
        }
    }

    fn shortest(&self, from: NodeId, to: NodeId) -> Result<Vec<Way>, NetworkError> {
        let distances = self.distances.borrow_mut().to(self.fabric, to);
        if distances[from.index()] == UNREACHED {
            let name = |node| self.fabric.name(node).to_owned();
            return Err(NetworkError::NoWay {
                from: name(from),
                to: name(to),
            });
        }
        let mut ends = vec![(from, Vec::new(), 1.0)];
        for _ in 0..distances[from.index()] {
            let longer = ends.iter().flat_map(|(at, lanes, share)| {
                let nexts = self.nexts(*at, [from, to], &distances);
                let share = share / nexts.len() as f64;
                nexts.into_iter().map(move |(next, lane)| {
                    (next, lanes.iter().copied().chain([lane]).collect(), share)
                })
            });
            ends = longer.take(MOST_WAYS).collect();
        }
        let covered: f64 = ends.iter().map(|(.., share)| share).sum();
        let way = |(_, lanes, share)| self.way(lanes, share / covered);
        Ok(ends.into_iter().map(way).collect())
    }

    /// The nodes one hop closer to the end of a pair, and the lanes there: all of them, or the one
    /// that the hash chooses.
    fn nexts(&self, at: NodeId, pair: [NodeId; 2], distances: &[u16]) -> Vec<(NodeId, u32)> {
        let closer = |(&(_, next), lanes): (&(NodeId, NodeId), &Vec<u32>)| {
            let may_pass = next == pair[1] || self.fabric.node(next).role.forwards();
            let is_closer = distances[next.index()].checked_add(1) == Some(distances[at.index()]);
            (may_pass && is_closer).then(|| (next, self.chosen(lanes, pair, at)))
        };
        let last = NodeId::from_index(u32::MAX as usize);
        let all = self.joined.range((at, NodeId::from_index(0))..=(at, last));
        let all: Vec<_> = all.filter_map(closer).collect();
        match self.settings.spreading {
            Spreading::Even => all,
            Spreading::Hashed { .. } => vec![self.chosen(&all, pair, at)],
        }
    }
}

/// SplitMix64 over what names a choice: the same on every machine.
fn hash(seed: u64, pair: [NodeId; 2], at: NodeId) -> u64 {
    let parts = [pair[0], pair[1], at].map(|node| node.index() as u64);
    parts.iter().fold(seed, |state, &part| {
        let mut z = (state ^ part).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

fn fraction(hash: u64) -> f64 {
    (hash >> 11) as f64 / (1u64 << 53) as f64
}
