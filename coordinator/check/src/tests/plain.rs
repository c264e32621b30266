//! Rounds and claims against a plain judge: of every node all links are written down over which it may send, and walked
//! until nothing is added.

use std::cell::Cell;
use std::collections::VecDeque;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use reweave_common::forwarding::{ForwardingTable, NextHop};
use reweave_common::migration_plan::{MigrationStep, Round};
use reweave_common::resource_set::ResourceSet;

use super::random_network::{
    ANY_ROLE, Bounds, MAX_LINK_DRAW, RandomNetwork, RandomPin, seeded, some_pins,
};
use super::*;
use crate::claims;

/// A node, a destination, and over which of its links it sends there.
type Entry = (usize, usize, Vec<usize>);

/// In place of one of its links: the first of the fabric, wherever that is.
const FOREIGN_LINK: usize = MAX_LINK_DRAW;

/// A small network, what its nodes hold, may hold and are about to hold, and pins.
#[derive(Debug, Clone)]
struct Case {
    network: RandomNetwork,
    tables: Vec<Entry>,
    unsure: Vec<Entry>,
    round: Vec<Entry>,
    pins: Vec<RandomPin>,
}

fn entries(nodes: usize, most: usize) -> impl Strategy<Value = Vec<Entry>> {
    let hops = prop::collection::vec(0..=FOREIGN_LINK, 0..=2);
    prop::collection::vec((0..nodes, 0..nodes, hops), 0..=most)
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
        let tables = [entries(nodes, 8), entries(nodes, 2), entries(nodes, 4)];
        (Just(network), tables, some_pins(nodes)).prop_map(|(network, tables, pins)| {
            let [tables, unsure, round] = tables;
            Case {
                network,
                tables,
                unsure,
                round,
                pins,
            }
        })
    })
}

impl Case {
    fn site(&self) -> Site {
        let mut site = self.network.site();
        site.pins = self.pins.iter().map(|&pin| site.random_pin(pin)).collect();
        site
    }
}

fn tables(site: &Site, entries: &[Entry]) -> Tables {
    let mut tables = Tables::new();
    for (at, to, hops) in entries {
        let [at, to] = [*at, *to].map(NodeId::from_index);
        let hop = |&nth: &usize| NextHop {
            link: match nth {
                FOREIGN_LINK => LinkId::from_index(0),
                _ => site.nth_link(at, nth),
            },
            weight: 1 + (nth % 2) as u32,
        };
        let table = tables.entry(at).or_insert_with(|| ForwardingTable {
            at,
            towards: BTreeMap::new(),
            raises: Vec::new(),
        });
        table.towards.insert(to, hops.iter().map(hop).collect());
    }
    tables
}

/// By node: all shortest ways over other links than these, through nodes that forward.
fn own_ways(
    fabric: &Fabric,
    avoided: &BTreeSet<LinkId>,
    to: NodeId,
) -> BTreeMap<NodeId, Vec<LinkId>> {
    let mut hops = BTreeMap::from([(to, 0)]);
    let mut ways: BTreeMap<NodeId, Vec<LinkId>> = BTreeMap::new();
    let mut queue = VecDeque::from([to]);
    while let Some(node) = queue.pop_front() {
        let links = fabric.links_of(node).iter();
        let passes = node == to || fabric.node(node).role.forwards();
        let left = hops[&node] + 1;
        for &link in links.filter(|link| passes && !avoided.contains(link)) {
            let next = fabric.link(link).far(node).node;
            let known = *hops.entry(next).or_insert_with(|| {
                queue.push_back(next);
                left
            });
            if known == left {
                ways.entry(next).or_default().push(link);
            }
        }
    }
    ways
}

fn links_of(way: &[(LinkId, u32)]) -> Vec<LinkId> {
    way.iter().map(|(link, _)| *link).collect()
}

/// The part of the packets that goes over this link.
fn part_over(way: &[(LinkId, u32)], link: LinkId) -> f64 {
    let sum = |hops: Vec<u32>| f64::from(hops.into_iter().sum::<u32>());
    let over = way.iter().filter(|(other, _)| *other == link);
    let over = sum(over.map(|(_, weight)| *weight).collect());
    if over <= 0.0 {
        return 0.0;
    }
    over / sum(way.iter().map(|(_, weight)| *weight).collect())
}

/// What is judged towards one destination, of all packets or of one flow.
struct Plain<'a> {
    network: &'a Network<'a>,
    round: &'a Round,
    to: NodeId,
    pinned: BTreeMap<NodeId, LinkId>,
}

impl Plain<'_> {
    /// The links over which a node sends by these tables, one list for each state that it may be in.
    fn by(&self, tables: &Tables, at: NodeId) -> Vec<Vec<LinkId>> {
        let table = tables.get(&at);
        if let Some(hops) = table.and_then(|table| table.towards.get(&self.to)) {
            return vec![hops.iter().map(|hop| hop.link).collect()];
        }
        let (fabric, down) = (self.network.fabric, self.network.down);
        let own = |avoided: &BTreeSet<LinkId>| {
            let ways = own_ways(fabric, avoided, self.to);
            ways.get(&at).cloned().unwrap_or_default()
        };
        let (heard, mut unheard) = (own(down), own(&BTreeSet::new()));
        unheard.retain(|link| !down.contains(link));
        if unheard.is_empty() || unheard == heard {
            vec![heard]
        } else {
            vec![heard, unheard]
        }
    }

    /// The same with the weight of each link.
    fn weighted(&self, tables: &Tables, at: NodeId) -> Vec<Vec<(LinkId, u32)>> {
        let table = tables.get(&at);
        if let Some(hops) = table.and_then(|table| table.towards.get(&self.to)) {
            return vec![hops.iter().map(|hop| (hop.link, hop.weight)).collect()];
        }
        let evenly = |links: Vec<LinkId>| links.into_iter().map(|link| (link, 1)).collect();
        self.by(tables, at).into_iter().map(evenly).collect()
    }

    /// Over which links a node may send a greater part of its packets than now.
    fn gaining(&self, at: NodeId) -> BTreeSet<LinkId> {
        let mut held = self.weighted(self.network.tables, at);
        if self.network.unsure.contains_key(&at) {
            held.extend(self.weighted(self.network.unsure, at));
        }
        let table = self.round.get(&at);
        let is_by_itself = table.is_none_or(|table| !table.towards.contains_key(&self.to));
        let mut gaining = BTreeSet::new();
        for (nth, way) in self.weighted(self.round, at).into_iter().enumerate() {
            // The second way of a node that is left to itself is the one of a node that has not heard.
            if is_by_itself && nth > 0 && self.is_lost(at) {
                continue;
            }
            if held.iter().any(|held| links_of(held) == links_of(&way)) {
                continue;
            }
            let gains = |link: &LinkId| {
                let mut held = held.iter().map(|held| part_over(held, *link));
                held.any(|part| part <= 0.0 || part < part_over(&way, *link))
            };
            gaining.extend(links_of(&way).into_iter().filter(gains));
        }
        gaining
    }

    /// Whether none of its packets arrives now.
    fn is_lost(&self, from: NodeId) -> bool {
        let fabric = self.network.fabric;
        let (mut open, mut seen) = (vec![from], BTreeSet::new());
        while let Some(at) = open.pop() {
            let goes_on = at == from || fabric.node(at).role.forwards();
            if at == self.to || !seen.insert(at) || !goes_on {
                continue;
            }
            let pinned = self.pinned.get(&at).map(|&link| vec![vec![link]]);
            for mut links in pinned.unwrap_or_else(|| self.held(at)) {
                links.retain(|link| !self.network.down.contains(link));
                let heads = self.heads(at, &links);
                if heads.contains(&self.to) {
                    return false;
                }
                open.extend(heads);
            }
        }
        true
    }

    fn held(&self, at: NodeId) -> Vec<Vec<LinkId>> {
        let mut held = self.by(self.network.tables, at);
        if self.network.unsure.contains_key(&at) {
            held.extend(self.by(self.network.unsure, at));
        }
        held
    }

    fn ways(&self, at: NodeId) -> Vec<Vec<LinkId>> {
        if at == self.to {
            return Vec::new();
        }
        if let Some(&link) = self.pinned.get(&at) {
            return vec![vec![link]];
        }
        let mut ways = self.held(at);
        if self.round.contains_key(&at) {
            ways.extend(self.by(self.round, at));
        }
        ways
    }

    /// What nodes of the round are about to do that they may not do now.
    fn changed(&self) -> BTreeMap<NodeId, Vec<LinkId>> {
        let nodes = self.round.keys().copied();
        let nodes = nodes.filter(|at| *at != self.to && !self.pinned.contains_key(at));
        let changed = nodes.filter_map(|at| {
            let held = self.held(at);
            let mut new = self.by(self.round, at);
            new.retain(|links| !held.contains(links));
            (!new.is_empty()).then(|| (at, new.concat()))
        });
        changed.collect()
    }

    fn heads(&self, at: NodeId, links: &[LinkId]) -> Vec<NodeId> {
        let fabric = self.network.fabric;
        let own = links
            .iter()
            .filter(|link| fabric.links_of(at).contains(link));
        own.map(|&link| fabric.link(link).far(at).node).collect()
    }

    /// All that packets may come to that have come there.
    fn behind(&self, at: NodeId) -> BTreeSet<NodeId> {
        let (mut behind, mut open) = (BTreeSet::new(), vec![at]);
        while let Some(at) = open.pop() {
            for node in self.ways(at).iter().flat_map(|links| self.heads(at, links)) {
                if behind.insert(node) {
                    open.push(node);
                }
            }
        }
        behind
    }

    fn end(&self, at: NodeId, links: &[LinkId]) -> Option<Trouble> {
        let Network { fabric, down, .. } = self.network;
        let is_dead = |link: &LinkId| !fabric.links_of(at).contains(link) || down.contains(link);
        let dead = links.iter().copied().find(is_dead);
        let at = fabric.name(at).to_owned();
        match dead.map(|link| fabric.link_name(link)) {
            Some(link) => Some(Trouble::DeadLink { at, link }),
            None => links.is_empty().then_some(Trouble::Stuck { at }),
        }
    }

    /// Which nodes circle is left open.
    fn trouble(&self) -> Option<Trouble> {
        let (fabric, changed) = (self.network.fabric, self.changed());
        let firsts = changed.keys().flat_map(|&at| {
            let gaining: Vec<_> = self.gaining(at).into_iter().collect();
            self.heads(at, &gaining)
        });
        let firsts: BTreeSet<_> = firsts.collect();
        let mut reached = firsts.clone();
        reached.extend(firsts.iter().flat_map(|&at| self.behind(at)));
        let stuck_at = |&at: &NodeId| {
            let passes = changed.contains_key(&at) || fabric.node(at).role.forwards();
            let stuck = (!passes).then(|| Trouble::Stuck {
                at: fabric.name(at).to_owned(),
            });
            let ways = self.ways(at);
            stuck.or_else(|| ways.iter().find_map(|links| self.end(at, links)))
        };
        let mut others = reached.iter().filter(|at| **at != self.to);
        let stuck = others.find_map(stuck_at);
        let stuck_by = || changed.iter().find_map(|(&at, links)| self.end(at, links));
        stuck.or_else(stuck_by).or_else(|| {
            let circles = reached.iter().any(|&at| self.behind(at).contains(&at));
            circles.then(|| Trouble::Circle { nodes: Vec::new() })
        })
    }

    /// Whether each of them may send to the next, and the last to the first.
    fn circles(&self, names: &[String]) -> bool {
        let nodes = names.iter().map(|name| self.network.fabric.find(name));
        let nodes: Vec<_> = nodes.map(|node| node.expect("it is there")).collect();
        let sends = |at: NodeId, next: NodeId| {
            let mut ways = self.ways(at).into_iter();
            ways.any(|links| self.heads(at, &links).contains(&next))
        };
        let next = nodes.iter().cycle().skip(1);
        !nodes.is_empty() && nodes.iter().zip(next).all(|(&at, &next)| sends(at, next))
    }
}

/// By the plain judge: what is wrong, and of what.
fn plainly<'a>(network: &'a Network<'a>, round: &'a Round) -> Vec<(Plain<'a>, Trouble)> {
    let mut found = Vec::new();
    for (to, _) in network.fabric.nodes() {
        let mut flows = BTreeMap::from([(None, BTreeMap::new())]);
        let is_there = |pin: &&Pin| network.addresses[pin.flow.destination.ip()] == to;
        for pin in network.pins.iter().filter(is_there) {
            let pinned = flows.entry(Some(pin.flow)).or_default();
            pinned.insert(pin.at, pin.link);
        }
        for pinned in flows.into_values() {
            let plain = Plain {
                network,
                round,
                to,
                pinned,
            };
            let trouble = plain.trouble();
            found.extend(trouble.map(|trouble| (plain, trouble)));
        }
    }
    found
}

/// What the plan needs that leads from these tables to those, by the plain judge.
fn plain_claims(site: &Site, [before, after]: [&Tables; 2]) -> ResourceSet {
    let fabric = &site.fabric;
    let entries = |tables: &Tables, at: NodeId| {
        let table = tables.get(&at);
        table.map_or_else(BTreeMap::new, |table| table.towards.clone())
    };
    let nodes = fabric.nodes().map(|(node, _)| node);
    let changed_nodes = nodes.filter(|&at| entries(before, at) != entries(after, at));
    let changed_nodes: BTreeSet<_> = changed_nodes.collect();
    let mut claims = ResourceSet {
        nodes: changed_nodes.clone(),
        ..ResourceSet::default()
    };
    for (to, _) in fabric.nodes() {
        let own = own_ways(fabric, &site.down, to);
        let links = |tables: &Tables, at: NodeId| -> BTreeSet<LinkId> {
            match entries(tables, at).get(&to) {
                Some(hops) => hops.iter().map(|hop| hop.link).collect(),
                None => own.get(&at).into_iter().flatten().copied().collect(),
            }
        };
        let weights = |tables: &Tables, at: NodeId| {
            let hops = entries(tables, at).remove(&to).unwrap_or_default();
            let weights: BTreeSet<_> = hops.iter().map(|hop| hop.weight).collect();
            (weights.len() > 1).then_some(hops)
        };
        let goes_on = |at: NodeId| {
            links(before, at) == links(after, at) && weights(before, at) == weights(after, at)
        };
        let elsewhere = changed_nodes.iter().copied();
        let elsewhere = elsewhere.filter(|&at| !goes_on(at));
        let elsewhere: Vec<_> = elsewhere.collect();
        claims.destinations.extend(elsewhere.first().map(|_| to));
        for tables in [before, after] {
            let (mut open, mut seen) = (elsewhere.clone(), BTreeSet::from([to]));
            while let Some(at) = open.pop() {
                let is_new = seen.insert(at);
                let passed = links(tables, at).into_iter();
                let passed = passed.filter(|link| fabric.links_of(at).contains(link));
                for link in passed.filter(|_| is_new) {
                    claims.links.insert(link);
                    open.push(fabric.link(link).far(at).node);
                }
            }
        }
    }
    claims
}

fn runner() -> TestRunner {
    TestRunner::new(seeded(1500, 5))
}

#[test]
fn rounds_match_plain_check() {
    let counts: [Cell<u32>; 4] = Default::default();
    let compare = |case: Case| {
        let site = case.site();
        let [held, unsure, round] =
            [&case.tables, &case.unsure, &case.round].map(|entries| tables(&site, entries));
        let circuits = Circuits::new();
        let network = site.network([&held, &unsure], &circuits);
        let found = check_step(&network, MigrationStep::Round(&round)).err();
        let found = found.unwrap_or_default();
        let expected = plainly(&network, &round);
        prop_assert!(found.len() == expected.len(), "{found:?}");
        for (found, (plain, expected)) in found.iter().zip(&expected) {
            let Unsound::Astray {
                destination,
                trouble,
            } = found
            else {
                panic!("{found}");
            };
            prop_assert_eq!(destination, site.fabric.name(plain.to));
            match (trouble, expected) {
                (Trouble::Circle { nodes }, Trouble::Circle { .. }) => {
                    prop_assert!(plain.circles(nodes), "{found}");
                }
                _ => prop_assert_eq!(trouble, expected),
            }
        }
        let kind = match expected.first() {
            None => 0,
            Some((_, Trouble::Circle { .. })) => 1,
            Some((_, Trouble::Stuck { .. })) => 2,
            Some((_, Trouble::DeadLink { .. })) => 3,
        };
        counts[kind].set(counts[kind].get() + 1);
        Ok(())
    };
    runner().run(&case(), compare).unwrap();
    assert!(counts.iter().all(|count| count.get() > 10), "{counts:?}");
}

#[test]
fn claims_match_plain_computation() {
    let (needing, as_before) = (Cell::new(0), Cell::new(0));
    let compare = |case: Case| {
        let mut site = case.site();
        site.pins.clear();
        let held = tables(&site, &case.tables);
        let mut after = held.clone();
        after.extend(tables(&site, &case.round));
        let (nothing, circuits) = (Tables::new(), Circuits::new());
        let network = site.network([&held, &nothing], &circuits);
        let expected = plain_claims(&site, [&held, &after]);
        let plan = Plan {
            tables: after,
            ..plan(&[])
        };
        let needs = !expected.destinations.is_empty();
        let count = if needs { &needing } else { &as_before };
        count.set(count.get() + 1);
        prop_assert_eq!(claims(&network, &plan), expected);
        Ok(())
    };
    runner().run(&case(), compare).unwrap();
    let (needing, as_before) = (needing.get(), as_before.get());
    assert!(needing > 100 && as_before > 10, "{needing} and {as_before}");
}
