//! Flows on a fabric as a problem of assignment.

use std::collections::BTreeMap;

use reweave_common::fabric::{Fabric, Role};
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::snapshot::Hop;

use super::Options;
use crate::assign::{Flow, Problem};
use crate::paths::Atlas;
use crate::paths::listed::{Listed, Movable};

/// A sender that goes back to the first lost packet sends about so many again: at a loss of one in a
/// hundred, half of what it sends is sent twice.
const SENT_AGAIN: f64 = 100.0;

/// What a link is good for, in bits per second.
pub(super) fn worth(fabric: &Fabric, link: LinkId, options: &Options) -> f64 {
    let rate = fabric.link(link).rate.bits_per_s() as f64;
    rate * part(options.lossy.get(&link).copied().unwrap_or(0.0))
}

/// What is left of a link that loses this share of packets.
pub(super) fn part(loss: f64) -> f64 {
    1.0 / (1.0 + SENT_AGAIN * loss)
}

/// Which flows can be moved, and where each could go.
pub(super) struct Sorted {
    pub(super) problem: Problem,
    /// By flow of the problem: its place in the list.
    places: Vec<usize>,
    /// Who cannot leave a drained link, by places in the list.
    pub(super) stuck: Vec<(usize, LinkId)>,
}

impl Sorted {
    pub(super) fn new(atlas: &mut Atlas<'_>, flows: &[Listed], options: &Options) -> Self {
        let fabric = atlas.fabric;
        let links = fabric.links();
        let capacities = links.flat_map(|(link, _)| [worth(fabric, link, options); 2]);
        let mut sorting = Sorting {
            problem: Problem {
                capacities: capacities.collect(),
                base: strangers(atlas, options),
                enough: options.enough,
                least_gain: options.least_gain + options.uncertainty,
                work: options.work,
                ..Problem::default()
            },
            pairs: BTreeMap::new(),
            options,
            atlas,
        };
        let largest = flows.iter().map(|flow| flow.bytes).max().unwrap_or(0) as f64;
        let least = largest * options.elephant_share;
        let (mut places, mut stuck) = (Vec::new(), Vec::new());
        for (place, flow) in flows.iter().enumerate() {
            let drained = sorting.drained(flow);
            let heavy = drained.is_some() || flow.bytes as f64 >= least;
            let movable = flow.movable != Movable::Never && heavy;
            match movable
                .then(|| sorting.flow(flow, drained.is_some()))
                .flatten()
            {
                Some(flow) => {
                    sorting.problem.flows.push(flow);
                    places.push(place);
                }
                None => {
                    sorting.leave(flow);
                    stuck.extend(drained.map(|link| (place, link)));
                }
            }
        }
        Self {
            problem: sorting.problem,
            places,
            stuck,
        }
    }

    /// The flows that change, by their places, and the way each goes then.
    pub(super) fn moved(
        &self,
        atlas: &Atlas<'_>,
        flows: &[Listed],
        ways: &[usize],
    ) -> Vec<(usize, Vec<Hop>)> {
        let flows_ways = self.problem.flows.iter().zip(ways).zip(&self.places);
        let changed = flows_ways.filter(|((flow, way), _)| flow.homeless || flow.way != **way);
        let path = |((flow, &way), &place): ((&Flow, &usize), &usize)| {
            let way = self.problem.pairs[flow.pair][way].iter();
            let old = &flows[place].path;
            let first = old.iter().take(1).copied();
            let between = way.map(|&index| atlas.hop(index));
            let last = old
                .iter()
                .skip(1 + self.problem.pairs[flow.pair][flow.way].len());
            (place, first.chain(between).chain(last.copied()).collect())
        };
        changed.map(path).collect()
    }
}

fn strangers(atlas: &Atlas<'_>, options: &Options) -> Vec<u64> {
    let mut base = vec![0; atlas.hops()];
    for (&hop, &bytes) in &options.strangers {
        base[atlas.index(hop)] = bytes;
    }
    base
}

struct Sorting<'a, 'f> {
    problem: Problem,
    options: &'a Options,
    /// By the switch where a flow comes in and the door where it leaves.
    pairs: BTreeMap<(NodeId, NodeId), usize>,
    atlas: &'a mut Atlas<'f>,
}

impl Sorting<'_, '_> {
    /// The first link on its way that shall carry nothing.
    fn drained(&self, flow: &Listed) -> Option<LinkId> {
        let mut links = flow.path.iter().map(|hop| hop.link);
        links.find(|link| self.options.drained.contains(link))
    }

    /// Nothing when it has no choice that switches can make for it.
    fn flow(&mut self, flow: &Listed, must_leave: bool) -> Option<Flow> {
        let first = *flow.path.first()?;
        let entrance = self.atlas.far(first);
        let from_host = self.atlas.fabric.node(first.from).role == Role::Host;
        let pair = from_host.then(|| self.pair(entrance, self.atlas.door(flow.ends[1])))?;
        let ways = &self.problem.pairs[pair];
        let inner: Vec<_> = flow.path[1..]
            .iter()
            .map(|&hop| self.atlas.index(hop))
            .collect();
        let is_present = |way: &[usize]| inner.starts_with(way);
        let present = ways.iter().position(is_present);
        let leaves = must_leave && present.is_none() && !ways.is_empty();
        let way = present.or(leaves.then_some(0))?;
        (leaves || ways.len() > 1 && !must_leave).then_some(Flow {
            pair,
            way,
            weight: flow.bytes,
            homeless: leaves,
        })
    }

    /// The ways of a pair, as far as switches choose them.
    fn pair(&mut self, entrance: NodeId, door: NodeId) -> usize {
        if let Some(&pair) = self.pairs.get(&(entrance, door)) {
            return pair;
        }
        let ways = self.atlas.ways(entrance, door);
        let by_switches = |way: &&Vec<Hop>| {
            let mut roles = way.iter().map(|hop| self.atlas.fabric.node(hop.from).role);
            roles.all(|role| role == Role::Switch)
        };
        let options = self.options;
        let is_shut =
            |hop: &Hop| options.closed.contains(hop) || options.drained.contains(&hop.link);
        let is_open = |way: &&Vec<Hop>| !way.iter().any(is_shut);
        let ways = ways.iter().filter(by_switches).filter(is_open);
        let indices =
            |way: &Vec<Hop>| -> Vec<_> { way.iter().map(|&hop| self.atlas.index(hop)).collect() };
        self.problem.pairs.push(ways.map(indices).collect());
        let pair = self.problem.pairs.len() - 1;
        self.pairs.insert((entrance, door), pair);
        pair
    }

    fn leave(&mut self, flow: &Listed) {
        for &hop in &flow.path {
            self.problem.base[self.atlas.index(hop)] += flow.bytes;
        }
    }
}
