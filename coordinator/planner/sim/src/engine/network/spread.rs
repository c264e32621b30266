//! Traffic that spreads evenly over all shortest paths, as with packet spraying.

use reweave_common::ids::NodeId;

use super::{Edge, Network, NetworkPath, Towards};

/// One of several paths, and its share of the traffic.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    pub way: NetworkPath,
    pub share: f64,
}

impl Network {
    /// Returns every shortest path, with the share of traffic if each node spreads evenly. Above `most` paths, the
    /// first are used for all. None without a path.
    pub fn ways(&self, from: NodeId, towards: &Towards, most: usize) -> Vec<Part> {
        let Some(hops) = self.hops(from, towards) else {
            return Vec::new();
        };
        self.spread(from, hops as usize, most, |_, at| self.closer(at, towards))
    }

    /// Returns the paths over these nodes, spread evenly over parallel cables. None if two of them are not neighbours.
    pub fn ways_along(&self, nodes: &[NodeId], most: usize) -> Vec<Part> {
        let hops = nodes.len().saturating_sub(1);
        self.spread(nodes[0], hops, most, |hop, at| {
            let next = nodes[hop + 1].index();
            let parallel = self.edges(at).iter().copied();
            parallel.filter(move |it| it.to as usize == next)
        })
    }

    fn spread<E: Iterator<Item = Edge>>(
        &self,
        from: NodeId,
        hops: usize,
        most: usize,
        edges: impl Fn(usize, usize) -> E,
    ) -> Vec<Part> {
        let mut first = NetworkPath::default();
        self.begin(&mut first);
        let mut ends = vec![(from.index(), first, 1.0)];
        for hop in 0..hops {
            let arrives = hop + 1 == hops;
            // Usually there is one path and one edge, and nothing to split.
            if let [(at, way, _)] = &mut ends[..]
                && let Some(edge) = only(edges(hop, *at))
            {
                self.go_on(way, edge, arrives);
                *at = edge.to as usize;
                continue;
            }
            let longer = ends.iter().flat_map(|(at, way, share)| {
                let edges: Vec<_> = edges(hop, *at).collect();
                let share = share / edges.len() as f64;
                edges.into_iter().map(move |edge| {
                    let mut way = way.clone();
                    self.go_on(&mut way, edge, arrives);
                    (edge.to as usize, way, share)
                })
            });
            ends = longer.take(most).collect();
        }
        let covered: f64 = ends.iter().map(|(.., share)| share).sum();
        ends.into_iter()
            .map(|(_, way, share)| Part {
                way,
                share: share / covered,
            })
            .collect()
    }
}

fn only<T>(mut items: impl Iterator<Item = T>) -> Option<T> {
    let first = items.next();
    first.filter(|_| items.next().is_none())
}
