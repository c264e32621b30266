//! The fabric as its agents see it. Several pieces of evidence outweigh a single one; contradictory evidence is left
//! out, and doubtful links are marked.

mod adjacency_evidence;

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::fabric::Role;
use reweave_common::names::{MAX_NAME_BYTES, is_plain};
use reweave_common::operator::{Discovered, DiscoveredLink, DiscoveredNode, LinkEnd, LooseEnd};
use reweave_common::units::Rate;

use crate::model::world::World;
use adjacency_evidence::{Seat, Sign, Signs, seat, signs};

/// An answer has to fit into one message, however large the cluster is.
const MAX_LINKS: usize = 1500;
const MAX_LOOSE_ENDS: usize = 500;
const MAX_DOUBTS: usize = 100;

/// The discovered fabric, with the links from number `from_link` on.
pub(crate) fn discover(world: &World<'_>, from_link: usize) -> Discovered {
    let mut chosen = Chosen::default();
    chosen.choose(signs(world));
    let sight = Sight::of(world);
    let links: Vec<_> = chosen.links.iter().map(|it| sight.link(it)).collect();
    let mut loose = sight.loose(&chosen.taken);
    loose.truncate(MAX_LOOSE_ENDS);
    let mut doubts = sight.doubts(chosen.left_out);
    doubts.truncate(MAX_DOUBTS);
    Discovered {
        nodes: sight.nodes(&links),
        all_links: links.len(),
        links: links.into_iter().skip(from_link).take(MAX_LINKS).collect(),
        loose,
        doubts,
    }
}

/// A pair of interfaces with its evidence.
struct Joined {
    ends: [Seat; 2],
    signs: BTreeSet<Sign>,
    is_guess: bool,
}

#[derive(Default)]
struct Chosen {
    links: Vec<Joined>,
    taken: BTreeSet<Seat>,
    /// Pairs with too little evidence.
    left_out: Vec<String>,
}

impl Chosen {
    /// Chooses the surest pairs first. A pair that is as sure as another one with the same interface is a guess.
    fn choose(&mut self, found: Signs) {
        let (traced, joined): (Signs, Signs) = found
            .into_iter()
            .partition(|(ends, _)| ends.iter().any(|end| end.interface.is_none()));
        let mut by_weight: BTreeMap<u32, Signs> = BTreeMap::new();
        for (ends, mut signs) in joined {
            if is_traced(&ends, &traced) {
                signs.insert(Sign::Traced);
            }
            let weight = signs.iter().map(Sign::weight).sum();
            by_weight.entry(weight).or_default().insert(ends, signs);
        }
        for (weight, pairs) in by_weight.into_iter().rev() {
            if weight > Sign::Subnet.weight() {
                self.take(pairs);
            } else {
                self.leave_out(&pairs);
            }
        }
        self.take_traced(traced);
        self.links.sort_by(|one, other| one.ends.cmp(&other.ends));
    }

    fn take(&mut self, pairs: Signs) {
        let free = |ends: &[Seat; 2]| !ends.iter().any(|end| self.taken.contains(end));
        let pairs: Signs = pairs.into_iter().filter(|(ends, _)| free(ends)).collect();
        let mut uses: BTreeMap<Seat, usize> = BTreeMap::new();
        for end in pairs.keys().flatten() {
            *uses.entry(end.clone()).or_default() += 1;
        }
        for (ends, signs) in pairs {
            self.taken.extend(ends.iter().cloned());
            self.links.push(Joined {
                is_guess: ends.iter().any(|end| uses[end] > 1),
                ends,
                signs,
            });
        }
    }

    /// Lists the pairs with evidence from addresses alone, which management networks have too.
    fn leave_out(&mut self, pairs: &Signs) {
        for ends in pairs.keys() {
            if !ends.iter().any(|end| self.taken.contains(end)) {
                let [one, other] = ends.each_ref().map(words);
                self.left_out.push(format!(
                    "{one} and {other} share a /31, the only evidence that they are connected"
                ));
            }
        }
    }

    /// Adds links that are known from traced paths alone.
    fn take_traced(&mut self, traced: Signs) {
        for (ends, signs) in traced {
            if !ends.iter().any(|end| self.taken.contains(end)) {
                let seen = ends.iter().filter(|end| end.interface.is_some());
                self.taken.extend(seen.cloned());
                self.links.push(Joined {
                    ends,
                    signs,
                    is_guess: false,
                });
            }
        }
    }
}

/// Whether a trace entered one of these interfaces from the node of the other.
fn is_traced(ends: &[Seat; 2], traced: &Signs) -> bool {
    let [one, other] = ends;
    [(one, other), (other, one)].iter().any(|(from, to)| {
        let mut pair = [seat(&from.node, None), (*to).clone()];
        pair.sort_unstable();
        traced.contains_key(&pair)
    })
}

fn words(end: &Seat) -> String {
    match &end.interface {
        Some(interface) => format!("{interface} of {}", end.node),
        None => end.node.clone(),
    }
}

/// What nodes report about themselves.
struct Sight<'p> {
    world: &'p World<'p>,
    /// The rates of interfaces that report them.
    rates: BTreeMap<Seat, Rate>,
    reporting: BTreeSet<String>,
}

impl<'p> Sight<'p> {
    fn of(world: &'p World<'_>) -> Self {
        let fabric = world.fabric();
        let nics = world.reporting().flat_map(|(node, observed)| {
            let nics = observed.host.nics.iter();
            nics.filter_map(move |(name, nic)| {
                Some((seat(fabric.name(node), Some(name)), nic.value.speed?))
            })
        });
        let reporting = world.reporting();
        Self {
            rates: nics.collect(),
            reporting: reporting
                .map(|(node, _)| fabric.name(node).to_owned())
                .collect(),
            world,
        }
    }

    fn link(&self, joined: &Joined) -> DiscoveredLink {
        let rates = joined
            .ends
            .each_ref()
            .map(|end| self.rates.get(end).copied());
        let end = |end: &Seat| LinkEnd {
            node: end.node.clone(),
            interface: end.interface.clone(),
        };
        DiscoveredLink {
            ends: joined.ends.each_ref().map(end),
            rate_bits_per_s: rates.into_iter().flatten().min(),
            because: joined.signs.iter().map(Sign::words).collect(),
            doubts: self.doubts_of(joined, rates),
            is_guess: joined.is_guess,
        }
    }

    fn doubts_of(&self, joined: &Joined, rates: [Option<Rate>; 2]) -> Vec<String> {
        let [one, other] = &joined.ends;
        let mut doubts = Vec::new();
        if joined.is_guess {
            doubts.push("equal evidence for another end".to_owned());
        }
        for silent in [one, other].iter().filter(|end| end.interface.is_none()) {
            doubts.push(format!("the interface of {} is unknown", silent.node));
        }
        let is_here = |end: &&&Seat| !self.reporting.contains(&end.node);
        for stranger in [one, other].iter().filter(is_here) {
            doubts.push(format!("no agent reports for {}", stranger.node));
        }
        match rates {
            [Some(one), Some(other)] if one != other => {
                doubts.push(format!("its ends say {one} and {other}"));
            }
            [None, None] => doubts.push("its speed is unknown".to_owned()),
            _ => {}
        }
        doubts
    }

    /// The nodes of the fabric, and all others at the ends of links.
    fn nodes(&self, links: &[DiscoveredLink]) -> Vec<DiscoveredNode> {
        let fabric = self.world.fabric();
        let known = fabric.nodes().map(|(_, node)| DiscoveredNode {
            name: node.name.clone(),
            role: node.role,
            doubts: if self.reporting.contains(&node.name) {
                vec![]
            } else {
                vec!["its agent does not report".to_owned()]
            },
        });
        let ends = links.iter().flat_map(|link| &link.ends);
        let strangers = ends.filter(|end| fabric.find(&end.node).is_none());
        let strangers: BTreeSet<_> = strangers.map(|end| end.node.clone()).collect();
        let strangers = strangers.into_iter().map(|name| DiscoveredNode {
            doubts: stranger(&name),
            role: Role::Switch,
            name,
        });
        known.chain(strangers).collect()
    }

    /// Interfaces that are up and belong to no link.
    fn loose(&self, taken: &BTreeSet<Seat>) -> Vec<LooseEnd> {
        let fabric = self.world.fabric();
        let all = self.world.reporting().flat_map(|(node, observed)| {
            let up = observed.counters.values().filter(|it| it.value.up);
            up.map(move |it| seat(fabric.name(node), Some(&it.value.interface)))
        });
        let loose =
            all.filter(|end| end.interface.as_deref() != Some("lo") && !taken.contains(end));
        let loose = loose.map(|end| LooseEnd {
            rate_bits_per_s: self.rates.get(&end).copied(),
            node: end.node,
            interface: end.interface.unwrap_or_default(),
        });
        loose.collect()
    }

    fn doubts(&self, left_out: Vec<String>) -> Vec<String> {
        let opticals = self.world.fabric().opticals();
        let unseen = opticals.map(|(_, optical)| {
            format!(
                "{} is an optical switch, whose fibres cannot be discovered; copy it and its \
                 fibres from the current fabric file",
                optical.name
            )
        });
        unseen.chain(left_out).collect()
    }
}

fn stranger(name: &str) -> Vec<String> {
    let mut doubts =
        vec!["known only by LLDP: no agent, and not in the current fabric file".to_owned()];
    if !is_plain(name, MAX_NAME_BYTES) {
        doubts.push("its own name is not a valid name for a node".to_owned());
    }
    doubts
}
