//! The checker against a walker that tries every mixture of switches that have followed a plan and
//! switches that have not, and every way a packet may take through it.

use proptest::prelude::*;

use super::random_network::{ANY_ROLE, Bounds, MAX_LINK_DRAW, RandomNetwork, name, seeded};
use super::*;

/// A small network, and pins before and after.
#[derive(Debug, Clone)]
struct Case {
    network: RandomNetwork,
    destination: usize,
    /// Node, and which of its links.
    before: Vec<(usize, usize)>,
    after: Vec<(usize, usize)>,
}

fn case() -> impl Strategy<Value = Case> {
    let networks = RandomNetwork::within(Bounds {
        nodes: 3..=6,
        roles: ANY_ROLE,
        most_more_links: 3,
        most_down: 1,
    });
    networks.prop_flat_map(|network| {
        let nodes = network.nodes();
        let pins = || prop::collection::vec((0..nodes, 0..MAX_LINK_DRAW), 0..=4);
        (Just(network), 0..nodes, pins(), pins()).prop_map(
            |(network, destination, before, after)| Case {
                network,
                destination,
                before,
                after,
            },
        )
    })
}

impl Case {
    fn site(&self) -> Site {
        let mut site = self.network.site();
        site.pins = self.pins(&site, &self.before);
        site
    }

    /// At most one pin per node, at nodes that forward, to one of its links.
    fn pins(&self, site: &Site, pins: &[(usize, usize)]) -> Vec<Pin> {
        let by_node: BTreeMap<_, _> = pins.iter().copied().collect();
        let forwards = |at: usize| self.network.roles[at].forwards();
        let forwarding = by_node
            .into_iter()
            .filter(|&(at, _)| at != self.destination && forwards(at));
        forwarding
            .map(|(at, nth)| site.random_pin([0, self.destination, at, nth]))
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
            (0..case.network.nodes())
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
    let forwards = |node: usize| node == case.destination || case.network.roles[node].forwards();
    let is_up = |from: usize, to: usize| {
        let link = site.link(&name(from), &name(to));
        !site.down.contains(&link)
    };
    let both_ways = || {
        case.network
            .links
            .iter()
            .flat_map(|&(a, b)| [(a, b), (b, a)])
    };
    let mut far = vec![usize::MAX - 1; case.network.nodes()];
    far[case.destination] = 0;
    for _ in 0..case.network.nodes() {
        for (from, to) in both_ways().filter(|&(from, to)| !rerouted || is_up(from, to)) {
            if forwards(to) {
                far[from] = far[from].min(far[to] + 1);
            }
        }
    }
    let mut next = vec![Vec::new(); case.network.nodes()];
    for (from, to) in both_ways().filter(|&(from, to)| forwards(from) && forwards(to)) {
        if from != case.destination && far[from] == far[to] + 1 && is_up(from, to) {
            next[from].push(to);
        }
    }
    next
}

proptest! {
    #![proptest_config(seeded(3000, 1))]

    #[test]
    fn failing_mixtures_are_refused(case in case()) {
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
    fn leaf_to_spine_pins_are_sound(
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
