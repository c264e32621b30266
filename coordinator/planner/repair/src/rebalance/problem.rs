//! Flows on a fabric as a problem of assignment.

use std::collections::BTreeMap;

use reweave_common::fabric::{Fabric, Role};
use reweave_common::ids::{LinkId, NodeId};
use reweave_common::snapshot::Hop;

use super::Options;
use super::moments::Moment;
use crate::assign::{Flow, Problem};
use crate::paths::Atlas;
use crate::paths::listed::{Listed, Movable};

/// A go-back-N sender resends about this number of packets per loss: at a loss of one in a hundred, half of what it
/// sends is sent twice.
const RETRANSMITS_PER_LOSS: f64 = 100.0;

/// The largest at a switch counts for this part of the largest of all at least: so mice do not become
/// elephants where they are among themselves.
const MIN_LOCAL_SHARE: f64 = 0.01;

/// Returns the effective rate of a link in bits per second.
pub(super) fn worth(fabric: &Fabric, link: LinkId, options: &Options) -> f64 {
    let rate = fabric.link(link).rate.bits_per_s() as f64;
    rate * part(options.lossy.get(&link).copied().unwrap_or(0.0))
}

/// Returns the effective share of the rate of a link with this loss.
pub(super) fn part(loss: f64) -> f64 {
    1.0 / (1.0 + RETRANSMITS_PER_LOSS * loss)
}

/// Movable flows with their possible paths. A hop has one place in the problem per moment.
pub(super) struct Sorted {
    pub(super) problem: Problem,
    /// Seat of each flow of the problem.
    seats: Vec<Seat>,
    /// Flows that cannot leave a drained link, by index in the list.
    pub(super) stuck: Vec<(usize, LinkId)>,
}

/// Position of a flow of the problem.
struct Seat {
    /// Index in the list.
    place: usize,
    /// Number of moments at which it exists, on one path.
    moments: usize,
}

impl Sorted {
    /// `is_open` says by index whether a flow's path is not settled yet.
    pub(super) fn new(
        atlas: &mut Atlas<'_>,
        flows: &[Listed],
        moments: &[Moment],
        is_open: &dyn Fn(usize) -> bool,
        options: &Options,
    ) -> Self {
        let mut sorting = Sorting {
            problem: empty(atlas, moments.len(), options),
            pairs: BTreeMap::new(),
            options,
            atlas,
        };
        let largest = moments.iter().map(|moment| {
            let there = moment.iter().map(|&place| &flows[place]);
            Largest::of(sorting.atlas, there)
        });
        let largest: Vec<_> = largest.collect();
        let (mut seats, mut stuck) = (Vec::new(), Vec::new());
        for (place, there) in when(moments) {
            let flow = &flows[place];
            let drained = sorting.drained(flow);
            let mut beside = there.iter().map(|&moment| &largest[moment]);
            let is_heavy = |it: &Largest| it.is_heavy(sorting.atlas, flow, options.elephant_share);
            let heavy = drained.is_some() || beside.any(is_heavy);
            let movable = flow.movable != Movable::Never && heavy && is_open(place);
            let sorted = movable.then(|| sorting.flow(flow, &there, drained.is_some()));
            if let Some(flow) = sorted.flatten() {
                sorting.problem.flows.push(flow);
                let moments = there.len();
                seats.push(Seat { place, moments });
            } else {
                sorting.leave(flow, &there);
                stuck.extend(drained.map(|link| (place, link)));
            }
        }
        Self {
            problem: sorting.problem,
            seats,
            stuck,
        }
    }

    /// Returns the moved flows by index, with their new paths.
    pub(super) fn moved(
        &self,
        atlas: &Atlas<'_>,
        flows: &[Listed],
        ways: &[usize],
    ) -> Vec<(usize, Vec<Hop>)> {
        let flows_ways = self.problem.flows.iter().zip(ways).zip(&self.seats);
        let changed = flows_ways.filter(|((flow, way), _)| flow.homeless || flow.way != **way);
        let path = |((flow, &way), seat): ((&Flow, &usize), &Seat)| {
            let way = &self.problem.pairs[flow.pair][way];
            let way = &way[..way.len() / seat.moments];
            let old = &flows[seat.place].path;
            let first = old.iter().take(1).copied();
            let between = way.iter().map(|&hop| atlas.hop(hop % atlas.hops()));
            let last = old.iter().skip(1 + way.len()).copied();
            (seat.place, first.chain(between).chain(last).collect())
        };
        changed.map(path).collect()
    }
}

/// Returns the moments at which each flow exists, by its index in the list.
fn when(moments: &[Moment]) -> BTreeMap<usize, Vec<usize>> {
    let mut when: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (moment, there) in moments.iter().enumerate() {
        there
            .iter()
            .for_each(|&flow| when.entry(flow).or_default().push(moment));
    }
    when
}

/// Hops with what strangers bring, and no flows.
fn empty(atlas: &Atlas<'_>, moments: usize, options: &Options) -> Problem {
    let fabric = atlas.fabric;
    let links = fabric.links();
    let capacities = links.flat_map(|(link, _)| [worth(fabric, link, options); 2]);
    Problem {
        capacities: capacities.collect::<Vec<_>>().repeat(moments),
        base: strangers(atlas, options).repeat(moments),
        enough: options.enough,
        least_gain: options.least_gain + options.uncertainty,
        work: options.work,
        ..Problem::default()
    }
}

/// The largest flows by where they come in and leave: one that is large by far makes mice of those it may
/// meet, and not of all others.
#[derive(Default)]
struct Largest {
    of_all: u64,
    at: BTreeMap<NodeId, u64>,
}

impl Largest {
    fn of<'f>(atlas: &Atlas<'_>, flows: impl Iterator<Item = &'f Listed>) -> Self {
        let mut largest = Self::default();
        for flow in flows {
            largest.of_all = largest.of_all.max(flow.bytes);
            for node in gates(atlas, flow).into_iter().flatten() {
                let at = largest.at.entry(node).or_default();
                *at = flow.bytes.max(*at);
            }
        }
        largest
    }

    /// Whether a flow is relevant: very small ones relative to the largest are not.
    fn is_heavy(&self, atlas: &Atlas<'_>, flow: &Listed, share: f64) -> bool {
        let gates = gates(atlas, flow).into_iter().flatten();
        let beside = gates.map(|node| self.at[&node]).min();
        let beside = beside.unwrap_or(self.of_all) as f64;
        let least = share * beside.max(MIN_LOCAL_SHARE * self.of_all as f64);
        flow.bytes as f64 >= least
    }
}

/// Returns the switches at which a flow enters and leaves the fabric.
fn gates(atlas: &Atlas<'_>, flow: &Listed) -> [Option<NodeId>; 2] {
    let entrance = flow.path.first().map(|&hop| atlas.far(hop));
    [entrance, Some(atlas.door(flow.destination()))]
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
    pairs: BTreeMap<Between, usize>,
    atlas: &'a mut Atlas<'f>,
}

/// Switch of entry, door of exit, and the moments of a flow.
type Between = (NodeId, NodeId, Vec<usize>);

impl Sorting<'_, '_> {
    /// Returns the first link on its path that should carry nothing.
    fn drained(&self, flow: &Listed) -> Option<LinkId> {
        let mut links = flow.path.iter().map(|hop| hop.link);
        links.find(|link| self.options.drained.contains(link))
    }

    /// Nothing when it has no choice that switches can make for it.
    fn flow(&mut self, flow: &Listed, there: &[usize], must_leave: bool) -> Option<Flow> {
        let first = *flow.path.first()?;
        let entrance = self.atlas.far(first);
        let from_host = self.atlas.fabric.node(first.from).role == Role::Host;
        let door = self.atlas.door(flow.destination());
        let pair = from_host.then(|| self.pair((entrance, door, there.to_vec())))?;
        let ways = &self.problem.pairs[pair];
        let inner: Vec<_> = self.hops_at(there[0], &flow.path[1..]).collect();
        let is_present = |way: &[usize]| inner.starts_with(&way[..way.len() / there.len()]);
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

    /// Places of hops at a moment.
    fn hops_at(&self, moment: usize, hops: &[Hop]) -> impl Iterator<Item = usize> {
        let before = moment * self.atlas.hops();
        hops.iter().map(move |&hop| before + self.atlas.index(hop))
    }

    /// Returns the paths of a pair between its switches, for each moment.
    fn pair(&mut self, between: Between) -> usize {
        if let Some(&pair) = self.pairs.get(&between) {
            return pair;
        }
        let (entrance, door, there) = &between;
        let ways = self.atlas.ways(*entrance, *door);
        let by_switches = |way: &&Vec<Hop>| {
            let mut roles = way.iter().map(|hop| self.atlas.fabric.node(hop.from).role);
            roles.all(|role| role == Role::Switch)
        };
        let options = self.options;
        let is_shut =
            |hop: &Hop| options.closed.contains(hop) || options.drained.contains(&hop.link);
        let is_open = |way: &&Vec<Hop>| !way.iter().any(is_shut);
        let ways = ways.iter().filter(by_switches).filter(is_open);
        let sorting = &*self;
        let at_all = |way: &Vec<Hop>| -> Vec<_> {
            let hops = |&moment: &usize| sorting.hops_at(moment, way);
            there.iter().flat_map(hops).collect()
        };
        let ways = ways.map(at_all).collect();
        self.problem.pairs.push(ways);
        let pair = self.problem.pairs.len() - 1;
        self.pairs.insert(between, pair);
        pair
    }

    fn leave(&mut self, flow: &Listed, there: &[usize]) {
        let at = |&moment: &usize| self.hops_at(moment, &flow.path);
        let hops: Vec<_> = there.iter().flat_map(at).collect();
        for hop in hops {
            self.problem.base[hop] += flow.bytes;
        }
    }
}
