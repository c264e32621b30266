//! Small networks that are drawn, for judges that try everything.

use std::ops::RangeInclusive;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use reweave_common::fabric::Role;

use super::*;

/// One of the links of a node is drawn by a number below this.
pub(super) const MAX_LINK_DRAW: usize = 8;

/// What is drawn to be down need not be there.
const MAX_DRAWN_LINKS: usize = 8;

/// All kinds of nodes, most of which forward.
pub(super) const ANY_ROLE: &[Role] = &[Role::Host, Role::Switch, Role::Relay, Role::Relay];

/// From where to where, at which node, and to which of its links.
pub(super) type RandomPin = [usize; 4];

/// How large a network may be, and what there is in it.
#[derive(Debug, Clone)]
pub(super) struct Bounds {
    pub(super) nodes: RangeInclusive<usize>,
    pub(super) roles: &'static [Role],
    /// Beside those of a tree.
    pub(super) most_more_links: usize,
    pub(super) most_down: usize,
}

/// It hangs together while all of its links are up. Its nodes are called n0, n1 and so on.
#[derive(Debug, Clone)]
pub(super) struct RandomNetwork {
    pub(super) roles: Vec<Role>,
    /// Pairs of nodes.
    pub(super) links: Vec<(usize, usize)>,
    down: BTreeSet<usize>,
}

impl RandomNetwork {
    pub(super) fn within(bounds: Bounds) -> impl Strategy<Value = Self> {
        let Bounds {
            nodes,
            roles,
            most_more_links,
            most_down,
        } = bounds;
        nodes.prop_flat_map(move |nodes| {
            let role = prop::sample::select(roles.to_vec());
            (
                prop::collection::vec(role, nodes),
                // A tree, so that all hangs together, and some links more.
                (1..nodes).map(|node| 0..node).collect::<Vec<_>>(),
                prop::collection::vec((0..nodes, 0..nodes), 0..=most_more_links),
                prop::collection::btree_set(0..MAX_DRAWN_LINKS, 0..=most_down),
            )
                .prop_map(|(roles, tree, more, down)| {
                    let tree = tree.into_iter().zip(1..);
                    let links: BTreeSet<_> = tree
                        .chain(more)
                        .filter(|(a, b)| a != b)
                        .map(|(a, b)| (a.min(b), a.max(b)))
                        .collect();
                    let links = links.into_iter().collect();
                    Self { roles, links, down }
                })
        })
    }

    pub(super) fn nodes(&self) -> usize {
        self.roles.len()
    }

    pub(super) fn site(&self) -> Site {
        let node = |(index, role): (usize, &Role)| {
            let (name, role) = (name(index), format!("{role:?}").to_lowercase());
            format!("[[node]]\nname = \"{name}\"\nrole = \"{role}\"\n")
        };
        let link = |&(a, b): &(usize, usize)| {
            let [a, b] = [a, b].map(name);
            format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\ngbps = 1\n")
        };
        let nodes: String = self.roles.iter().enumerate().map(node).collect();
        let links: String = self.links.iter().map(link).collect();
        let mut site = Site::of(&format!("kind = \"graph\"\n{nodes}{links}"));
        let down = self.down.iter().filter(|&&link| link < self.links.len());
        site.down = down.map(|&link| LinkId::from_index(link)).collect();
        site
    }
}

pub(super) fn name(node: usize) -> String {
    format!("n{node}")
}

/// At most two, in a network with this number of nodes.
pub(super) fn some_pins(nodes: usize) -> impl Strategy<Value = Vec<RandomPin>> {
    prop::collection::vec([0..nodes, 0..nodes, 0..nodes, 0..MAX_LINK_DRAW], 0..=2)
}

impl Site {
    /// Counted round and round.
    pub(super) fn nth_link(&self, at: NodeId, nth: usize) -> LinkId {
        let links = self.fabric.links_of(at);
        links[nth % links.len()]
    }

    pub(super) fn random_pin(&self, [from, to, at, nth]: RandomPin) -> Pin {
        let at = NodeId::from_index(at);
        Pin {
            flow: self.flow(&name(from), &name(to)),
            at,
            link: self.nth_link(at, nth),
        }
    }
}

pub(super) fn seeded(cases: u32, seed: u64) -> ProptestConfig {
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}
