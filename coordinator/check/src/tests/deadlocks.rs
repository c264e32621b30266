//! Full buffers that wait for each other: against a walker that tries every mixture of nodes that have followed
//! and nodes that have not, and every way of every packet through it.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use reweave_common::fabric::Role;
use reweave_common::forwarding::{ForwardingTable, NextHop};
use reweave_common::migration_plan::Round;

use super::random_network::{Bounds, MAX_LINK_DRAW, RandomNetwork, RandomPin, seeded, some_pins};
use super::*;
use crate::buffers::{deadlock, deadlock_towards, waits};

type Wait = [(LinkId, NodeId); 2];

/// Relays, who is joined to whom, and where each sends what is for each, before and after.
#[derive(Debug, Clone)]
struct Case {
    network: RandomNetwork,
    /// Which of its ways there, by destination and node.
    picks: [Vec<usize>; 2],
    follows: Vec<bool>,
    /// Where a flow between two nodes leaves a third: before, and after.
    pins: [Vec<RandomPin>; 2],
    /// At these nodes, in tables of before or after, what comes over one link is raised where it goes on over another.
    raises: Vec<(bool, [usize; 3])>,
}

fn case() -> impl Strategy<Value = Case> {
    let networks = RandomNetwork::within(Bounds {
        nodes: 3..=5,
        roles: &[Role::Relay],
        most_more_links: 4,
        most_down: 0,
    });
    networks.prop_flat_map(|network| {
        let nodes = network.nodes();
        let picks = || prop::collection::vec(0..16usize, nodes * nodes);
        let raises = (
            any::<bool>(),
            [0..nodes, 0..MAX_LINK_DRAW, 0..MAX_LINK_DRAW],
        );
        (
            Just(network),
            [picks(), picks()],
            prop::collection::vec(any::<bool>(), nodes),
            [some_pins(nodes), some_pins(nodes)],
            prop::collection::vec(raises, 0..=2),
        )
            .prop_map(|(network, picks, follows, pins, raises)| Case {
                network,
                picks,
                follows,
                pins,
                raises,
            })
    })
}

impl Case {
    /// Every node sends to each by a tree that grows at random from there.
    fn tables(&self, site: &Site, picks: &[usize]) -> Tables {
        let (mut tables, nodes) = (Tables::new(), self.network.nodes());
        for to in site.fabric.endpoints() {
            let (mut reached, mut turn) = (vec![to], 0);
            while reached.len() < nodes {
                let steps = reached.iter().flat_map(|&at| {
                    let links = site.fabric.links_of(at).iter();
                    links.map(move |&link| (link, site.fabric.link(link).far(at).node))
                });
                let steps: Vec<_> = steps.filter(|(_, node)| !reached.contains(node)).collect();
                let (link, at) = steps[picks[to.index() * nodes + turn] % steps.len()];
                let own = || ForwardingTable {
                    at,
                    towards: BTreeMap::new(),
                    raises: Vec::new(),
                };
                let table = tables.entry(at).or_insert_with(own);
                table.towards.insert(to, vec![NextHop { link, weight: 1 }]);
                reached.push(at);
                turn += 1;
            }
        }
        tables
    }

    fn pins(&self, site: &Site) -> [Vec<Pin>; 2] {
        self.pins
            .each_ref()
            .map(|pins| pins.iter().map(|&pin| site.random_pin(pin)).collect())
    }

    fn raise(&self, site: &Site, before: &mut Tables, round: &mut Round) {
        for &(is_before, [at, first, second]) in &self.raises {
            let at = NodeId::from_index(at);
            let raise = [first, second].map(|nth| site.nth_link(at, nth));
            let tables = if is_before { &mut *before } else { &mut *round };
            if let Some(table) = tables.get_mut(&at) {
                table.raises.push(raise);
            }
        }
    }

    /// Before, and the round of all that follow.
    fn change(&self, site: &Site) -> (Tables, Round) {
        let before = self.tables(site, &self.picks[0]);
        let mut round = self.tables(site, &self.picks[1]);
        round.retain(|node, _| self.follows[node.index()]);
        (before, round)
    }
}

fn lossless<'a>(
    site: &'a Site,
    tables: &'a Tables,
    unsure: &'a Tables,
    circuits: &'a Circuits,
) -> Network<'a> {
    Network {
        is_lossless: true,
        ..site.network([tables, unsure], circuits)
    }
}

/// What waits for what in one mixture; none where packets circle in it.
fn walked(site: &Site, tables: &Tables, waits: &mut BTreeSet<Wait>) -> bool {
    let nodes = site.fabric.nodes().len();
    let hosts: Vec<_> = site.fabric.endpoints().collect();
    hosts.iter().all(|&to| {
        hosts.iter().filter(|&&from| from != to).all(|&from| {
            let (mut at, mut came) = (from, None);
            for _ in 0..nodes {
                let link = tables[&at].towards[&to][0].link;
                let next = site.fabric.link(link).far(at).node;
                waits.extend(came.map(|came| [came, (link, next)]));
                (at, came) = (next, Some((link, next)));
                if at == to {
                    return true;
                }
            }
            false
        })
    })
}

/// By every mixture; none where packets circle in any.
fn tried(site: &Site, before: &Tables, round: &Round) -> Option<BTreeSet<Wait>> {
    let nodes: Vec<_> = round.keys().copied().collect();
    let mut waits = BTreeSet::new();
    let arrives = (0..1_u32 << nodes.len()).all(|mixture| {
        let mut mixed = before.clone();
        for (index, node) in nodes.iter().enumerate() {
            if mixture & (1 << index) != 0 {
                mixed.insert(*node, round[node].clone());
            }
        }
        walked(site, &mixed, &mut waits)
    });
    arrives.then_some(waits)
}

/// Whether a wait that was not there before is a part of a circle.
fn closes(all: &BTreeSet<Wait>, before: &BTreeSet<Wait>) -> bool {
    let mut far = all.clone();
    loop {
        let more = far.iter().flat_map(|&[a, b]| {
            let on = all.iter().filter(move |wait| wait[0] == b);
            on.map(move |&[_, c]| [a, c])
        });
        let more: Vec<_> = more.filter(|wait| !far.contains(wait)).collect();
        if more.is_empty() {
            break;
        }
        far.extend(more);
    }
    all.difference(before).any(|&[a, b]| far.contains(&[b, a]))
}

fn runner() -> TestRunner {
    TestRunner::new(seeded(600, 9))
}

#[test]
fn buffer_waits_match_all_mixtures() {
    let (compared, circles) = (Cell::new(0), Cell::new(0));
    let compare = |case: Case| {
        let site = case.network.site();
        let (before, round) = case.change(&site);
        let Some(expected) = tried(&site, &before, &round) else {
            return Ok(());
        };
        let (nothing, circuits) = (Tables::new(), Circuits::new());
        let network = lossless(&site, &before, &nothing, &circuits);
        let all = |_: NodeId| true;
        let found = waits(&Ground::of(&network), &round, &[], all).into_iter();
        let found = found.map(|wait| wait.map(|(link, node, _)| (link, node)));
        prop_assert_eq!(&found.collect::<BTreeSet<Wait>>(), &expected);
        let mut old = BTreeSet::new();
        walked(&site, &before, &mut old);
        let closes = closes(&expected, &old);
        prop_assert_eq!(deadlock(&network, &round, &[]).is_some(), closes);
        compared.set(compared.get() + 1);
        circles.set(circles.get() + u32::from(closes));
        Ok(())
    };
    runner().run(&case(), compare).unwrap();
    let (circles, compared) = (circles.get(), compared.get());
    assert!(compared > 100 && circles > 10, "{circles} of {compared}");
}

/// With pins, classes and nodes that may have followed already.
#[test]
fn unchanged_destinations_close_no_deadlock() {
    let (clean, circles) = (Cell::new(0), Cell::new(0));
    let compare = |case: Case| {
        let site = case.network.site();
        let (mut before, mut round) = case.change(&site);
        let unsure: Round = round.pop_first().into_iter().collect();
        case.raise(&site, &mut before, &mut round);
        let [pins, next_pins] = case.pins(&site);
        let circuits = Circuits::new();
        let network = Network {
            pins: &pins,
            ..lossless(&site, &before, &unsure, &circuits)
        };
        let found = deadlock(&network, &round, &next_pins).is_some();
        let towards_all = deadlock_towards(&network, &round, &next_pins, |_| true).is_some();
        prop_assert_eq!(found, towards_all);
        let count = if found { &circles } else { &clean };
        count.set(count.get() + 1);
        Ok(())
    };
    runner().run(&case(), compare).unwrap();
    let (clean, circles) = (clean.get(), circles.get());
    assert!(clean > 50 && circles > 50, "{clean} and {circles}");
}

/// Four relays in a ring. Over two hops a and c send by b, and b and d by c; then c by d, and d by a: with all
/// of them to the right each waits for the next.
fn ring() -> (Site, Tables, Round) {
    let site = Site::relays("abcd", &["ab", "bc", "cd", "da"]);
    let node = NodeId::from_index;
    let table = |at: usize, across: usize| {
        let towards = (0..4).filter(|to| *to != at).map(|to| {
            let next = if to == (at + 2) % 4 { across } else { to };
            let link = site.fabric.links_between(node(at), node(next)).next();
            let link = link.expect("they are neighbours");
            (node(to), vec![NextHop { link, weight: 1 }])
        });
        let table = ForwardingTable {
            at: node(at),
            towards: towards.collect(),
            raises: Vec::new(),
        };
        (node(at), table)
    };
    let before = [table(0, 1), table(1, 2), table(2, 1), table(3, 2)];
    let round = [table(2, 3), table(3, 0)];
    (site, before.into(), round.into())
}

#[test]
fn ring_deadlock_opens_with_extra_class() {
    let (site, before, mut round) = ring();
    let (nothing, circuits) = (Tables::new(), Circuits::new());
    let network = lossless(&site, &before, &nothing, &circuits);
    let found = deadlock(&network, &round, &[]).expect("c sends to a by d, and d to b by a");
    let words = found.to_string();
    assert!(
        words.contains("full buffers may wait for each other"),
        "{words}"
    );
    for buffer in ["a-b", "b-c", "c-d", "d-a"] {
        assert!(words.contains(buffer), "{words}");
    }
    // A packet that comes from c and goes on to a at d has a buffer of its own there.
    let d = site.node("d");
    let hop = [site.link("c", "d"), site.link("d", "a")];
    round.get_mut(&d).unwrap().raises.push(hop);
    let mut raised = before.clone();
    raised.get_mut(&d).unwrap().raises.push(hop);
    let raised = Network {
        tables: &raised,
        ..network
    };
    assert_eq!(deadlock(&raised, &round, &[]), None);
    // Where packets are dropped, none waits.
    let drops = Network {
        is_lossless: false,
        ..network
    };
    assert_eq!(deadlock(&drops, &before, &[]), None);
}
