//! Interchangeable hosts: results for one hold for all.
//!
//! Nodes are twins if they have the same neighbours over the same rates. So are switches that differ only in the hosts
//! attached to them alone, if these hosts are equal.

use std::collections::{BTreeMap, BTreeSet};

use super::bound::Capacities;

/// Node at the other end, with the capacities there and back.
type Side = (Far, i128, i128);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Far {
    Node(usize),
    /// A host attached to this node alone, and whether it is one of the roots.
    Leaf {
        root: bool,
    },
}

/// The key that twins of a node share and that other nodes do not have.
type Sides = Vec<Side>;

/// One host of each set of twins, the first of each. The first `roots` of the hosts are unlike the
/// others.
pub(super) fn one_of_each(graph: &Capacities, roots: usize) -> Vec<usize> {
    let sides = sides(graph);
    let roots: BTreeSet<usize> = graph.hosts[..roots].iter().copied().collect();
    let hosts: BTreeSet<usize> = graph.hosts.iter().copied().collect();
    let leaf = |node: usize| hosts.contains(&node) && sides[node].len() == 1;
    let of_node = |node: usize| -> Sides {
        let marked = sides[node].iter().map(|&(far, out, into)| {
            let mark = match far {
                Far::Node(far) if leaf(far) => Far::Leaf {
                    root: roots.contains(&far),
                },
                other => other,
            };
            (mark, out, into)
        });
        let mut marked: Sides = marked.collect();
        marked.sort_unstable();
        marked
    };
    // Twins have the number of the first of them.
    let mut firsts: BTreeMap<Sides, usize> = BTreeMap::new();
    let first: Vec<usize> = (0..graph.nodes)
        .map(|node| {
            if hosts.contains(&node) {
                node
            } else {
                *firsts.entry(of_node(node)).or_insert(node)
            }
        })
        .collect();
    let mut seen = BTreeSet::new();
    let is_new = |host: &usize| {
        let root = roots.contains(host);
        seen.insert(match (leaf(*host), &sides[*host][..]) {
            (true, &[(Far::Node(at), out, into)]) => {
                (root, vec![(Far::Node(first[at]), out, into)])
            }
            (_, all) => (root, all.to_vec()),
        })
    };
    graph.hosts.iter().copied().filter(is_new).collect()
}

/// Returns the neighbours of each node.
fn sides(graph: &Capacities) -> Vec<Sides> {
    let mut between: BTreeMap<(usize, usize), [i128; 2]> = BTreeMap::new();
    for &(from, to, capacity) in &graph.edges {
        between.entry((from, to)).or_default()[0] += capacity;
        between.entry((to, from)).or_default()[1] += capacity;
    }
    let mut sides = vec![Sides::new(); graph.nodes];
    for ((node, far), [out, into]) in between {
        sides[node].push((Far::Node(far), out, into));
    }
    sides
}

#[cfg(test)]
mod tests {
    use reweave_common::fabric::Fabric;

    use super::*;

    /// The names of one host of each kind.
    fn kinds(text: &str, roots: usize) -> Vec<String> {
        let fabric = Fabric::parse("fabric.toml", text).unwrap();
        let hosts: Vec<_> = fabric.endpoints().collect();
        let graph = Capacities::of(&fabric, &hosts);
        let names: BTreeMap<_, _> = hosts.iter().map(|&it| (it.index(), it)).collect();
        let name = |host: usize| fabric.name(names[&host]).to_owned();
        let kinds = one_of_each(&graph, if roots == 0 { hosts.len() } else { roots });
        kinds.into_iter().map(name).collect()
    }

    const FOUR_LEAVES: &str = "kind = \"leaf-spine\"\nleaves = 4\nspines = 2\nhosts_per_leaf = 3\n\
                          host_gbps = 1\nuplink_gbps = 1";

    #[test]
    fn hosts_of_equal_leaves_are_symmetric() {
        assert_eq!(kinds(FOUR_LEAVES, 0), ["h0"]);
        // A host that sends to all is one of its kind, and so is its leaf.
        assert_eq!(kinds(FOUR_LEAVES, 1), ["h0", "h1", "h3"]);
        let ideal = "kind = \"ideal\"\nhosts = 9\nnic_gbps = 1";
        assert_eq!(kinds(ideal, 0), ["h0"]);
    }

    #[test]
    fn differing_rate_or_neighbour_breaks_symmetry() {
        let hosts = ["a", "b", "c", "d", "e"];
        let nodes = hosts.map(|name| format!("{{ name = \"{name}\", role = \"host\" }}"));
        let uneven = format!(
            r#"
            kind = "graph"
            node = [{}, {{ name = "s", role = "switch" }}, {{ name = "t", role = "switch" }}]
            link = [{{ a = "a", b = "s", gbps = 1 }}, {{ a = "b", b = "s", gbps = 1 }},
                    {{ a = "c", b = "s", gbps = 2 }}, {{ a = "s", b = "t", gbps = 1 }},
                    {{ a = "d", b = "t", gbps = 1 }}, {{ a = "e", b = "s", gbps = 1 }},
                    {{ a = "e", b = "t", gbps = 1 }}]
            "#,
            nodes.join(", ")
        );
        assert_eq!(kinds(&uneven, 0), ["a", "c", "d", "e"]);
        let ring = "kind = \"direct\"\nhosts = 5\nlink_gbps = 1\nstrides = [1]";
        assert_eq!(kinds(ring, 0).len(), 5);
    }
}
