//! Weights of links at switches, for equal-cost paths of different worth.

use std::collections::BTreeMap;

use reweave_common::ids::{LinkId, NodeId};
use reweave_common::snapshot::Hop;

use super::{Options, problem};
use crate::paths::listed::Listed;
use crate::paths::{Atlas, Destination};

/// Weights at one switch for flows that leave by some doors.
#[derive(Debug, Clone, PartialEq)]
pub struct Weights {
    pub at: NodeId,
    /// The switches that lead to their hosts; none named where it is the same for all.
    pub towards: Vec<NodeId>,
    pub links: Vec<(LinkId, u32)>,
}

/// Weight of the best path of each choice.
const MAX_PATH_WEIGHT: u32 = 16;

/// Returns the uneven weights of all choices that flows have.
pub(super) fn weights(atlas: &mut Atlas<'_>, flows: &[Listed], options: &Options) -> Vec<Weights> {
    // Flows that leave a switch by the same door have the same choice.
    let mut ends: BTreeMap<(NodeId, NodeId), Destination> = BTreeMap::new();
    for flow in flows {
        let to = flow.destination();
        let door = atlas.door(to);
        for hop in &flow.path {
            ends.insert((hop.from, door), to);
        }
    }
    let mut weighing = Weighing::new(atlas, options);
    let mut choices: BTreeMap<NodeId, usize> = BTreeMap::new();
    let mut uneven: BTreeMap<_, Vec<NodeId>> = BTreeMap::new();
    for ((at, door), to) in ends {
        let links = weighing.weigh(at, to);
        *choices.entry(at).or_default() += 1;
        if links.iter().any(|(_, weight)| *weight != MAX_PATH_WEIGHT) {
            uneven.entry((at, links)).or_default().push(door);
        }
    }
    let weights = uneven.into_iter().map(|((at, links), doors)| {
        let all = doors.len() == choices[&at];
        let towards = if all { Vec::new() } else { doors };
        Weights { at, towards, links }
    });
    weights.collect()
}

struct Weighing<'a, 'f> {
    atlas: &'a mut Atlas<'f>,
    /// Worth of each link.
    worths: Vec<f64>,
    /// Maximum rate from each node to each door.
    rooms: BTreeMap<(NodeId, NodeId), f64>,
}

impl<'a, 'f> Weighing<'a, 'f> {
    fn new(atlas: &'a mut Atlas<'f>, options: &Options) -> Self {
        let fabric = atlas.fabric;
        let worths = fabric.links().map(|(link, _)| {
            if options.drained.contains(&link) {
                0.0
            } else {
                problem::worth(fabric, link, options)
            }
        });
        Self {
            worths: worths.collect(),
            rooms: BTreeMap::new(),
            atlas,
        }
    }

    /// Returns nothing without a choice or a path.
    fn weigh(&mut self, at: NodeId, to: Destination) -> Vec<(LinkId, u32)> {
        let links = self.atlas.choices(at, to);
        if links.len() < 2 || self.atlas.fabric.node(at).role.is_endpoint() {
            return Vec::new();
        }
        let rooms = links
            .iter()
            .map(|&link| self.over(Hop { from: at, link }, to));
        let rooms: Vec<_> = rooms.collect();
        let best = rooms.iter().copied().fold(0.0, f64::max);
        if best == 0.0 {
            return Vec::new();
        }
        let weights = rooms
            .iter()
            .map(|room| (f64::from(MAX_PATH_WEIGHT) * room / best).round() as u32);
        links.into_iter().zip(weights).collect()
    }

    /// No more than there is room for behind it.
    fn over(&mut self, hop: Hop, to: Destination) -> f64 {
        let worth = self.worths[hop.link.index()];
        worth.min(self.room(self.atlas.far(hop), to))
    }

    fn room(&mut self, at: NodeId, to: Destination) -> f64 {
        let door = self.atlas.door(to);
        if at == door || at == to.node {
            return f64::INFINITY;
        }
        if let Some(&known) = self.rooms.get(&(at, door)) {
            return known;
        }
        let links = self.atlas.choices(at, to).into_iter();
        let room = links
            .map(|link| self.over(Hop { from: at, link }, to))
            .sum();
        self.rooms.insert((at, door), room);
        room
    }
}
