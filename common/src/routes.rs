//! Routes: the next hops of each node for a host, or for all NICs of a switch.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::fabric::Fabric;
use crate::ids::{LinkId, NodeId};

/// For every destination, by default every endpoint of a fabric, the equal-cost next hops from everywhere else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Routes {
    towards: BTreeMap<NodeId, Tree>,
}

/// All shortest paths to one destination.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Tree {
    hops: Vec<Option<u32>>,
    /// Next hops of all nodes, one node after another.
    next_hops: Vec<LinkId>,
    /// End of the next hops of each node.
    ends: Vec<usize>,
}

impl Routes {
    /// All paths with the fewest hops, through nodes that forward.
    pub fn shortest(fabric: &Fabric) -> Self {
        Self::around(fabric, &BTreeSet::new())
    }

    /// Routes that avoid some links, such as dark ones.
    pub fn around(fabric: &Fabric, closed: &BTreeSet<LinkId>) -> Self {
        Self::to_each(fabric, closed, fabric.endpoints())
    }

    /// The same to these destinations only. A switch stands for the NICs that hang on it: with eight NICs a host, there
    /// are many times fewer leaves than endpoints.
    pub fn to_each(
        fabric: &Fabric,
        closed: &BTreeSet<LinkId>,
        destinations: impl IntoIterator<Item = NodeId>,
    ) -> Self {
        let links = fabric.links().map(|(link, _)| closed.contains(&link));
        let is_closed: Vec<_> = links.collect();
        let destinations = destinations.into_iter();
        let tree = |to| (to, Tree::around(fabric, &is_closed, to));
        Self {
            towards: destinations.map(tree).collect(),
        }
    }

    /// Returns the links over which `at` may send towards `to`; none without a path, or if it is `to`.
    pub fn next_hops(&self, at: NodeId, to: NodeId) -> &[LinkId] {
        self.towards.get(&to).map_or(&[], |tree| tree.next_hops(at))
    }

    /// Returns the number of links from `from` to `to`.
    pub fn hops(&self, from: NodeId, to: NodeId) -> Option<u32> {
        self.towards
            .get(&to)
            .and_then(|tree| tree.hops[from.index()])
    }
}

impl Tree {
    fn around(fabric: &Fabric, is_closed: &[bool], to: NodeId) -> Self {
        let hops = hops_around(fabric, is_closed, to);
        let closer = |at: NodeId, link: LinkId| {
            let next = fabric.link(link).far(at).node;
            let may_pass = next == to || fabric.node(next).role.forwards();
            let is_open = !is_closed[link.index()];
            is_open && may_pass && hops[next.index()].map(|hops| hops + 1) == hops[at.index()]
        };
        let (mut next_hops, mut ends) = (Vec::new(), Vec::new());
        for (at, _) in fabric.nodes() {
            if hops[at.index()].is_some_and(|hops| hops > 0) {
                let links = fabric.links_of(at).iter().copied();
                next_hops.extend(links.filter(|&link| closer(at, link)));
            }
            ends.push(next_hops.len());
        }
        Self {
            hops,
            next_hops,
            ends,
        }
    }

    fn next_hops(&self, at: NodeId) -> &[LinkId] {
        let before = at.index().checked_sub(1);
        let first = before.map_or(0, |before| self.ends[before]);
        &self.next_hops[first..self.ends[at.index()]]
    }
}

/// Returns the number of links from each node to one endpoint; none without a path. Nodes that do not forward are
/// reached but not passed.
pub fn hops_to(fabric: &Fabric, to: NodeId) -> Vec<Option<u32>> {
    hops_around(fabric, &vec![false; fabric.links().len()], to)
}

/// Returns the number of shortest paths from each node to one of them, over open links and forwarding nodes; one from
/// itself, and zero without a path.
pub fn ways_to(fabric: &Fabric, is_closed: &[bool], to: NodeId) -> Vec<u32> {
    let hops = hops_around(fabric, is_closed, to);
    let mut ways = vec![0_u32; fabric.nodes().len()];
    ways[to.index()] = 1;
    let mut nearest: Vec<_> = fabric.nodes().map(|(node, _)| node).collect();
    nearest.retain(|node| hops[node.index()].is_some());
    nearest.sort_by_key(|node| hops[node.index()]);
    for at in nearest {
        if at != to && !fabric.node(at).role.forwards() {
            continue;
        }
        let farther = hops[at.index()].map(|hops| hops + 1);
        let links = fabric.links_of(at).iter();
        for &link in links.filter(|link| !is_closed[link.index()]) {
            let next = fabric.link(link).far(at).node;
            if hops[next.index()] == farther {
                ways[next.index()] = ways[next.index()].saturating_add(ways[at.index()]);
            }
        }
    }
    ways
}

fn hops_around(fabric: &Fabric, is_closed: &[bool], to: NodeId) -> Vec<Option<u32>> {
    let mut hops = vec![None; fabric.nodes().len()];
    hops[to.index()] = Some(0);
    let mut queue = VecDeque::from([(to, 0)]);
    while let Some((at, distance)) = queue.pop_front() {
        if at != to && !fabric.node(at).role.forwards() {
            continue;
        }
        let links = fabric.links_of(at).iter();
        for &link in links.filter(|link| !is_closed[link.index()]) {
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

    /// Returns the number of ordered pairs that are 1, 2, 3, ... hops apart.
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
    fn twelve_hosts_match_published_distances() {
        let rings = "kind = \"direct\"\nhosts = 12\nlink_gbps = 25\nstrides = [1, 5]";
        assert_eq!(histogram(&fabric(rings)), [48, 60, 24]);
    }

    #[test]
    fn leaf_has_one_path_per_spine() {
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
    fn tree_of_leaf_serves_its_hosts() {
        let text = "kind = \"leaf-spine\"\nleaves = 2\nspines = 3\nhosts_per_leaf = 2\n\
                    host_gbps = 1\nuplink_gbps = 1";
        let fabric = fabric(text);
        let leaf = fabric.find("leaf1").unwrap();
        let closed = fabric.find_link("leaf0-spine1").into_iter().collect();
        let to_hosts = Routes::around(&fabric, &closed);
        let to_leaves = Routes::to_each(&fabric, &closed, fabric.leaf_destinations());
        for host in ["h2", "h3"].map(|name| fabric.find(name).unwrap()) {
            let others = fabric.nodes().map(|(node, _)| node);
            for at in others.filter(|&at| at != host && at != leaf) {
                assert_eq!(to_leaves.next_hops(at, leaf), to_hosts.next_hops(at, host));
                let hops = to_leaves.hops(at, leaf).unwrap();
                assert_eq!(to_hosts.hops(at, host), Some(hops + 1));
            }
            assert_eq!(
                to_leaves.hops(leaf, host),
                None,
                "it has no tree of its own"
            );
        }
    }

    #[test]
    fn path_counts_multiply_and_skip_closed() {
        let text = "kind = \"leaf-spine\"\nleaves = 2\nspines = 3\nhosts_per_leaf = 2\n\
                    host_gbps = 1\nuplink_gbps = 1";
        let fabric = fabric(text);
        let node = |name| fabric.find(name).unwrap();
        let mut is_closed = vec![false; fabric.links().len()];
        let ways = |is_closed: &[bool], from| {
            ways_to(&fabric, is_closed, node("leaf1"))[node(from).index()]
        };
        let all = ["leaf0", "leaf1", "h0", "h2", "spine0"].map(|from| ways(&is_closed, from));
        assert_eq!(all, [3, 1, 3, 1, 1]);
        is_closed[fabric.find_link("leaf0-spine1").unwrap().index()] = true;
        assert_eq!(ways(&is_closed, "leaf0"), 2);
        let parallel = r#"
            kind = "graph"
            node = [{ name = "a", role = "host" }, { name = "s", role = "switch" }, { name = "t", role = "switch" }]
            link = [{ a = "a", b = "s", gbps = 1 }, { a = "s", b = "t", gbps = 1, count = 2 }]
        "#;
        let fabric = Fabric::parse("f", parallel).unwrap();
        let [a, t] = ["a", "t"].map(|name| fabric.find(name).unwrap());
        assert_eq!(ways_to(&fabric, &[false; 3], t)[a.index()], 2);
        assert_eq!(ways_to(&fabric, &[true, false, false], t)[a.index()], 0);
    }

    #[test]
    fn dark_links_carry_no_route() {
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
    fn host_forwards_for_no_others() {
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
