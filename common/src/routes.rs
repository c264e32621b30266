//! Routes: where each node sends what is meant for a host.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::fabric::Fabric;
use crate::ids::{LinkId, NodeId};

/// For every endpoint of a fabric, the equal-cost next hops from everywhere else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routes {
    towards: BTreeMap<NodeId, Tree>,
}

/// All shortest ways to one destination.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Tree {
    hops: Vec<Option<u32>>,
    next_hops: Vec<Vec<LinkId>>,
}

impl Routes {
    /// All paths with the fewest hops, through nodes that forward.
    pub fn shortest(fabric: &Fabric) -> Self {
        Self::around(fabric, &BTreeSet::new())
    }

    /// Of those that do without some links, such as dark ones.
    pub fn around(fabric: &Fabric, closed: &BTreeSet<LinkId>) -> Self {
        let towards = fabric
            .endpoints()
            .map(|to| (to, Tree::around(fabric, closed, to)))
            .collect();
        Self { towards }
    }

    /// The links over which `at` may send towards `to`; none when there is no way, or it is `to`.
    pub fn next_hops(&self, at: NodeId, to: NodeId) -> &[LinkId] {
        self.towards
            .get(&to)
            .map_or(&[], |tree| &tree.next_hops[at.index()])
    }

    /// The number of links from `from` to `to`.
    pub fn hops(&self, from: NodeId, to: NodeId) -> Option<u32> {
        self.towards
            .get(&to)
            .and_then(|tree| tree.hops[from.index()])
    }
}

impl Tree {
    fn around(fabric: &Fabric, closed: &BTreeSet<LinkId>, to: NodeId) -> Self {
        let hops = hops_around(fabric, closed, to);
        let closer = |at: NodeId, link: LinkId| {
            let next = fabric.link(link).far(at).node;
            let may_pass = next == to || fabric.node(next).role.forwards();
            let is_open = !closed.contains(&link);
            is_open && may_pass && hops[next.index()].map(|hops| hops + 1) == hops[at.index()]
        };
        let next_hops = |(at, _)| match hops[NodeId::index(at)] {
            None | Some(0) => Vec::new(),
            Some(_) => {
                let links = fabric.links_of(at).iter().copied();
                links.filter(|&link| closer(at, link)).collect()
            }
        };
        let next_hops = fabric.nodes().map(next_hops).collect();
        Self { hops, next_hops }
    }
}

/// How many links it is from each node to one endpoint; nothing where there is no way. Breadth-first
/// from the destination; a node that does not forward is reached but not passed.
pub fn hops_to(fabric: &Fabric, to: NodeId) -> Vec<Option<u32>> {
    hops_around(fabric, &BTreeSet::new(), to)
}

fn hops_around(fabric: &Fabric, closed: &BTreeSet<LinkId>, to: NodeId) -> Vec<Option<u32>> {
    let mut hops = vec![None; fabric.nodes().len()];
    hops[to.index()] = Some(0);
    let mut queue = VecDeque::from([(to, 0)]);
    while let Some((at, distance)) = queue.pop_front() {
        if at != to && !fabric.node(at).role.forwards() {
            continue;
        }
        let links = fabric.links_of(at).iter();
        for &link in links.filter(|link| !closed.contains(link)) {
            let next = fabric.link(link).far(at).node;
            if hops[next.index()].is_none() {
                hops[next.index()] = Some(distance + 1);
                queue.push_back((next, distance + 1));
            }
        }
    }
    hops
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fabric(text: &str) -> Fabric {
        Fabric::parse("fabric.toml", text).unwrap()
    }

    /// How many ordered pairs are 1, 2, 3, ... hops apart.
    fn histogram(fabric: &Fabric) -> Vec<usize> {
        let routes = Routes::shortest(fabric);
        let mut counts = Vec::new();
        for from in fabric.endpoints() {
            for to in fabric.endpoints().filter(|&to| to != from) {
                let hops = routes.hops(from, to).unwrap() as usize;
                counts.resize(counts.len().max(hops), 0);
                counts[hops - 1] += 1;
            }
        }
        counts
    }

    #[test]
    fn twelve_hosts_on_strides_1_and_5_are_as_far_apart_as_published() {
        let rings = "kind = \"direct\"\nhosts = 12\nlink_gbps = 25\nstrides = [1, 5]";
        assert_eq!(histogram(&fabric(rings)), [48, 60, 24]);
    }

    #[test]
    fn a_leaf_has_one_way_per_spine_and_hosts_pass_nothing_on() {
        let text = "kind = \"leaf-spine\"\nleaves = 2\nspines = 3\nhosts_per_leaf = 2\n\
                    host_gbps = 1\nuplink_gbps = 1";
        let fabric = fabric(text);
        let routes = Routes::shortest(&fabric);
        let [h0, h3, leaf0] = ["h0", "h3", "leaf0"].map(|name| fabric.find(name).unwrap());
        assert_eq!(routes.next_hops(leaf0, h3).len(), 3);
        assert_eq!(routes.next_hops(leaf0, h0).len(), 1);
        assert_eq!(routes.next_hops(h0, h0), []);
        assert_eq!(histogram(&fabric), [0, 4, 0, 8]);
    }

    #[test]
    fn dark_links_are_no_way() {
        let ring = fabric("kind = \"direct\"\nhosts = 5\nlink_gbps = 1\nstrides = [1]");
        let [h0, h1] = ["h0", "h1"].map(|name| ring.find(name).unwrap());
        let closed = ring.links_between(h0, h1).collect();
        let routes = Routes::around(&ring, &closed);
        assert_eq!(Routes::shortest(&ring).hops(h0, h1), Some(1));
        assert_eq!(routes.hops(h0, h1), Some(4));
        assert!(
            routes
                .next_hops(h0, h1)
                .iter()
                .all(|link| !closed.contains(link))
        );
    }

    #[test]
    fn a_host_between_two_others_is_no_way() {
        let text = r#"
            kind = "graph"
            node = [{ name = "a", role = "host" }, { name = "b", role = "host" },
                    { name = "c", role = "host" }]
            link = [{ a = "a", b = "b", gbps = 1 }, { a = "b", b = "c", gbps = 1 }]
        "#;
        let fabric = fabric(text);
        let routes = Routes::shortest(&fabric);
        let [a, b, c] = ["a", "b", "c"].map(|name| fabric.find(name).unwrap());
        assert_eq!(routes.hops(a, b), Some(1));
        assert_eq!(routes.hops(a, c), None);
        assert_eq!(routes.next_hops(a, c), []);
    }
}
