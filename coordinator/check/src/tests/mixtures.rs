//! The checker against a walker that tries every mixture of switches that have followed a plan and
//! switches that have not, and every way a packet may take through it.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use reweave_common::fabric::Role;

use super::*;

/// A small network, pins before and after, and links that are down.
#[derive(Debug, Clone)]
struct Case {
    roles: Vec<Role>,
    /// Pairs of nodes.
    links: Vec<(usize, usize)>,
    destination: usize,
    /// Node, and which of its links.
    before: Vec<(usize, usize)>,
    after: Vec<(usize, usize)>,
    down: BTreeSet<usize>,
}

fn case() -> impl Strategy<Value = Case> {
    (3..=6usize).prop_flat_map(|nodes| {
        let role = prop::sample::select(vec![Role::Host, Role::Switch, Role::Relay, Role::Relay]);
        let pins = || prop::collection::vec((0..nodes, 0..8usize), 0..=4);
        (
            prop::collection::vec(role, nodes),
            // A tree, so that all hangs together, and some links more.
            (1..nodes).map(|node| 0..node).collect::<Vec<_>>(),
            prop::collection::vec((0..nodes, 0..nodes), 0..=3),
            0..nodes,
            (pins(), pins()),
            prop::collection::btree_set(0..12usize, 0..=1),
        )
            .prop_map(|(roles, tree, more, destination, (before, after), down)| {
                let tree = tree.into_iter().zip(1..);
                let links: BTreeSet<_> = tree
                    .chain(more)
                    .filter(|(a, b)| a != b)
                    .map(|(a, b)| (a.min(b), a.max(b)))
                    .collect();
                let links = links.into_iter().collect();
                Case {
                    roles,
                    links,
                    destination,
                    before,
                    after,
                    down,
                }
            })
    })
}

impl Case {
    fn site(&self) -> Site {
        let node = |(index, role): (usize, &Role)| {
            let role = format!("{role:?}").to_lowercase();
            format!("[[node]]\nname = \"n{index}\"\nrole = \"{role}\"\n")
        };
        let link =
            |(a, b): &(usize, usize)| format!("[[link]]\na = \"n{a}\"\nb = \"n{b}\"\ngbps = 1\n");
        let nodes: String = self.roles.iter().enumerate().map(node).collect();
        let links: String = self.links.iter().map(link).collect();
        let mut site = Site::of(&format!("kind = \"graph\"\n{nodes}{links}"));
        let down = self.down.iter().filter(|&&link| link < self.links.len());
        site.down = down.map(|&link| LinkId::from_index(link)).collect();
        site.pins = self.pins(&site, &self.before);
        site
    }

    /// At most one pin per node, at nodes that forward, to one of its links.
    fn pins(&self, site: &Site, pins: &[(usize, usize)]) -> Vec<Pin> {
        let flow = site.flow("n0", &format!("n{}", self.destination));
        let by_node: BTreeMap<_, _> = pins.iter().copied().collect();
        let forwarding = by_node
            .into_iter()
            .filter(|&(at, _)| at != self.destination && self.roles[at].forwards());
        forwarding
            .map(|(at, nth)| {
                let at = NodeId::from_index(at);
                let links = site.fabric.links_of(at);
                Pin {
                    flow,
                    at,
                    link: links[nth % links.len()],
                }
            })
            .collect()
    }
}

/// Where each node sends, before and after; walks every mixture.
struct Walker {
    destination: usize,
    rerouted: bool,
    before: Vec<Vec<usize>>,
    after: Vec<Vec<usize>>,
    pinned_before: Vec<bool>,
    pinned_after: Vec<bool>,
}

impl Walker {
    fn new(case: &Case, site: &Site, planned: &[Pin], rerouted: bool) -> Self {
        let unpinned = unpinned(case, site, rerouted);
        let next = |pins: &[Pin]| {
            let mut next = unpinned.clone();
            for pin in pins {
                let is_up = !site.down.contains(&pin.link);
                let far = site.fabric.link(pin.link).far(pin.at).node.index();
                next[pin.at.index()] = if is_up { vec![far] } else { Vec::new() };
            }
            next
        };
        let has_pin = |pins: &[Pin]| {
            (0..case.roles.len())
                .map(|node| pins.iter().any(|pin| pin.at.index() == node))
                .collect()
        };
        Self {
            destination: case.destination,
            rerouted,
            before: next(&site.pins),
            after: next(planned),
            pinned_before: has_pin(&site.pins),
            pinned_after: has_pin(planned),
        }
    }

    /// Whether no node ever has a choice.
    fn is_single(&self) -> bool {
        self.before
            .iter()
            .chain(&self.after)
            .all(|next| next.len() <= 1)
    }

    /// Whether in some mixture packets circle or are lost through the plan's doing.
    fn fails(&self) -> bool {
        let nodes = self.before.len();
        let mut mixtures = 0..1usize << nodes;
        mixtures.any(|mixture| {
            (0..nodes).any(|start| {
                let mut walk = Walk {
                    mixture,
                    ..Walk::default()
                };
                self.fails_from(start, &mut walk)
            })
        })
    }

    /// Walks on from a node, all ways there are.
    fn fails_from(&self, at: usize, walk: &mut Walk) -> bool {
        if at == self.destination {
            return false;
        }
        if walk.passed.contains(&at) {
            return walk.sent || walk.freed;
        }
        let (sent, freed) = (walk.sent, walk.freed);
        let follows = walk.mixture >> at & 1 == 1;
        walk.sent |= follows && self.pinned_after[at];
        let next = if follows {
            &self.after[at]
        } else {
            &self.before[at]
        };
        if next.is_empty() {
            let lost = walk.sent || walk.freed && self.rerouted;
            walk.sent = sent;
            return lost;
        }
        walk.freed |= follows && self.pinned_before[at];
        walk.passed.push(at);
        let fails = next.iter().any(|&next| self.fails_from(next, walk));
        walk.passed.pop();
        (walk.sent, walk.freed) = (sent, freed);
        fails
    }
}

/// A packet on its way through one mixture.
#[derive(Default)]
struct Walk {
    /// A bit for each node: whether it has followed the plan.
    mixture: usize,
    passed: Vec<usize>,
    /// It has passed a planned pin.
    sent: bool,
    /// It has passed a node that held a pin and holds none now.
    freed: bool,
}

/// By node: the neighbours nearer to the destination, by relaxing all distances till none changes.
fn unpinned(case: &Case, site: &Site, rerouted: bool) -> Vec<Vec<usize>> {
    let forwards = |node: usize| node == case.destination || case.roles[node].forwards();
    let is_up = |from: usize, to: usize| {
        !site
            .down
            .contains(&site.link(&format!("n{from}"), &format!("n{to}")))
    };
    let both_ways = || case.links.iter().flat_map(|&(a, b)| [(a, b), (b, a)]);
    let mut far = vec![usize::MAX - 1; case.roles.len()];
    far[case.destination] = 0;
    for _ in 0..case.roles.len() {
        for (from, to) in both_ways().filter(|&(from, to)| !rerouted || is_up(from, to)) {
            if forwards(to) {
                far[from] = far[from].min(far[to] + 1);
            }
        }
    }
    let mut next = vec![Vec::new(); case.roles.len()];
    for (from, to) in both_ways().filter(|&(from, to)| forwards(from) && forwards(to)) {
        if from != case.destination && far[from] == far[to] + 1 && is_up(from, to) {
            next[from].push(to);
        }
    }
    next
}

fn seeded(cases: u32) -> ProptestConfig {
    let rng_seed = RngSeed::Fixed(1);
    ProptestConfig {
        cases,
        rng_seed,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(seeded(3000))]

    #[test]
    fn whatever_fails_in_some_mixture_is_refused_and_without_choices_nothing_else(case in case()) {
        let site = case.site();
        let planned = case.pins(&site, &case.after);
        let verdict = site.check(&planned);
        let walkers = [false, true].map(|rerouted| Walker::new(&case, &site, &planned, rerouted));
        if walkers.iter().any(Walker::fails) {
            prop_assert!(verdict.is_err(), "approved");
        } else if walkers.iter().all(Walker::is_single) {
            prop_assert_eq!(verdict, Ok(()));
        }
    }

    #[test]
    fn pins_from_leaves_to_spines_are_sound(
        pins in prop::collection::vec((0..2usize, 0..2usize, 0..2usize, 0..3usize), 0..8),
        in_force in 0..8usize,
    ) {
        let mut site = Site::leaf_spine();
        let mut spines = BTreeMap::new();
        for (leaf, from, to, spine) in pins {
            let [from, to] = [2 * leaf + from, 2 * (1 - leaf) + to].map(|host| format!("h{host}"));
            spines.insert((site.flow(&from, &to), leaf), spine);
        }
        let pin = |(&(flow, leaf), spine): (&(FlowKey, usize), &usize)| {
            site.pin(flow, &format!("leaf{leaf}"), &format!("spine{spine}"))
        };
        let planned: Vec<_> = spines.iter().map(pin).collect();
        site.pins = planned.iter().take(in_force).map(|pin| site.pin(pin.flow, site.fabric.name(pin.at), "spine0")).collect();
        prop_assert_eq!(site.check(&planned), Ok(()));
    }
}
