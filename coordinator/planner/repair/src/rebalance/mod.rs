//! The fewest moves after which no link is fuller than necessary, for flows with known paths.
//!
//! The elephants are assigned again ([`assign`](crate::assign)); mice, and immovable flows, stay in place. A lossy link
//! counts as slower. Flows leave a drained link, mice included, and a flow that cannot is named. Other flows are moved
//! only if the gain exceeds the least gain plus the uncertainty, so that the next plan does not undo it. Flows that
//! never exist at the same time do not interfere: the fullness of a link is that of each moment.

mod bundles;
mod moments;
mod planning;
mod problem;
#[cfg(test)]
mod tests;
mod weights;

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::ids::LinkId;
use reweave_common::snapshot::Hop;
use reweave_common::units::Rate;

use crate::assign::{Solution, Work};
use crate::fim::{Spread, of_listed_on};
use crate::paths::ecmp::{Ecmp, Fields};
use crate::paths::listed::{Listed, Movable};
use crate::paths::{Atlas, Learned};
use bundles::Bundles;
pub use weights::Weights;

/// The least and the most source port that RoCE draws.
const ROCE_SOURCE_PORTS: std::ops::RangeInclusive<u16> = 0xc000..=0xffff;
/// Maximum number of ports tried per flow: enough for 64 paths in nearly all cases.
const MAX_PORTS: usize = 1024;

#[derive(Debug, Clone)]
pub struct Options {
    /// Loss of each link, as a share of packets.
    pub lossy: BTreeMap<LinkId, f64>,
    /// Links that should carry nothing.
    pub drained: BTreeSet<LinkId>,
    /// Hops that no flow is to be sent over.
    pub closed: BTreeSet<Hop>,
    /// Load of each hop from other flows.
    pub strangers: BTreeMap<Hop, u64>,
    /// Load in bytes per bit/s of capacity below which a link is uncritical; zero if only evenness counts.
    pub enough: f64,
    /// A fall of max/mean by less than this is not worth a move.
    pub least_gain: f64,
    /// Relative uncertainty of flow sizes.
    pub uncertainty: f64,
    /// A flow below this share of the largest that enters or leaves at the same switch is not moved.
    pub elephant_share: f64,
    /// Paths by source port, learned from probes.
    pub learned: Learned,
    pub work: Work,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            lossy: BTreeMap::new(),
            drained: BTreeSet::new(),
            closed: BTreeSet::new(),
            strangers: BTreeMap::new(),
            enough: 0.0,
            least_gain: 0.1,
            uncertainty: 0.0,
            elephant_share: 0.1,
            learned: Learned::default(),
            work: Work::default(),
        }
    }
}

#[derive(Debug, Clone)]
pub struct Rebalanced {
    pub before: Spread,
    pub after: Spread,
    pub moves: Vec<Move>,
    /// Weights where equal ones are inadequate.
    pub weights: Vec<Weights>,
    pub solution: Solution,
    /// Indices in the table of the flows that cannot leave a drained link.
    pub stuck: Vec<(usize, LinkId)>,
    /// Flows that were weighed.
    pub elephants: usize,
}

/// A move of one flow to another path.
#[derive(Debug, Clone, PartialEq)]
pub struct Move {
    /// Index in the table.
    pub flow: usize,
    pub from: Hop,
    pub to: Hop,
    /// From end to end.
    pub path: Vec<Hop>,
    pub by: By,
}

#[derive(Debug, Clone, PartialEq)]
pub enum By {
    /// Over these links, wherever the switch would have a choice.
    Pins(Vec<Hop>),
    /// This source port is hashed there.
    SourcePort(u16),
}

/// Returns the effective rate of a link with this loss.
pub fn worth(rate: Rate, loss: f64) -> Rate {
    Rate::from_bits_per_s((rate.bits_per_s() as f64 * problem::part(loss)) as u64)
}

/// Plans the moves of flows on a fabric. `ecmp` is the hash by which source ports are chosen if probes have not learned
/// them.
pub fn rebalance(
    atlas: &mut Atlas<'_>,
    flows: &[Listed],
    ecmp: &Ecmp,
    options: &Options,
) -> Rebalanced {
    let bundles = Bundles::new(flows);
    let lone = bundles.as_ref().map_or(flows, |it| &it.flows);
    let planning = planning::planned(atlas, lone, options);
    let mut ports = Ports {
        ecmp,
        learned: &options.learned,
        taken: flows.iter().map(|flow| flow.fields).collect(),
    };
    let both = lone.iter().zip(&planning.moved);
    let changed = both.filter(|(old, new)| old.path != new.path);
    let moves = changed.filter_map(|(old, new)| as_move(atlas, old, new, &mut ports));
    let moves = moves.collect();
    let mut stuck: Vec<_> = planning.stuck.into_iter().collect();
    let mut moved = planning.moved;
    if let Some(bundles) = &bundles {
        stuck = bundles.each_of(stuck, flows);
        moved = bundles.led(flows, &moved);
    }
    let fabric = atlas.fabric;
    let worth = |link: LinkId| {
        let drained = options.drained.contains(&link);
        (!drained).then(|| problem::worth(fabric, link, options))
    };
    Rebalanced {
        before: of_listed_on(atlas, flows, &worth),
        after: of_listed_on(atlas, &moved, &worth),
        moves,
        weights: weights::weights(atlas, flows, options),
        stuck,
        elephants: planning.elephants,
        solution: planning.solution,
    }
}

fn as_move(
    atlas: &mut Atlas<'_>,
    old: &Listed,
    new: &Listed,
    ports: &mut Ports<'_>,
) -> Option<Move> {
    let shared = old.path.iter().zip(&new.path);
    let shared = shared.take_while(|(old, new)| old == new).count();
    let port = (old.movable == Movable::Port).then(|| ports.find(atlas, old, new));
    let by = port
        .flatten()
        .map_or_else(|| By::Pins(pins(atlas, new, shared)), By::SourcePort);
    Some(Move {
        flow: old.id,
        from: *old.path.get(shared)?,
        to: *new.path.get(shared)?,
        path: new.path.clone(),
        by,
    })
}

/// Returns pins: one where the paths separate, and one wherever hashing would have a choice after that.
fn pins(atlas: &mut Atlas<'_>, flow: &Listed, shared: usize) -> Vec<Hop> {
    let hops = flow.path.iter().enumerate().skip(shared);
    let needs_pin = |&(place, hop): &(usize, &Hop)| {
        place == shared || atlas.choices(hop.from, flow.destination()).len() > 1
    };
    hops.filter(needs_pin).map(|(_, hop)| *hop).collect()
}

/// Paths by source port.
struct Ports<'p> {
    ecmp: &'p Ecmp,
    learned: &'p Learned,
    /// Fields of existing and of future flows.
    taken: BTreeSet<Fields>,
}

impl Ports<'_> {
    /// Returns a source port for the new path that no other flow between these ends has.
    fn find(&mut self, atlas: &mut Atlas<'_>, old: &Listed, new: &Listed) -> Option<u16> {
        let with = |source_port| Fields {
            source_port,
            ..old.fields
        };
        let is_free = |&port: &u16| !self.taken.contains(&with(port));
        let known = self
            .learned
            .ports_along(&old.fields, &new.path)
            .find(is_free);
        let port = known.or_else(|| self.predicted(atlas, old, new))?;
        self.taken.insert(with(port));
        Some(port)
    }

    /// Uses the hash if the flow's present path agrees with it.
    fn predicted(&self, atlas: &mut Atlas<'_>, old: &Listed, new: &Listed) -> Option<u16> {
        let mut leads = |fields: Fields, path: &[Hop]| {
            let hashed = atlas.hashed(old.ends, self.ecmp, self.ecmp.label(fields));
            hashed.is_some_and(|hashed| hashed == path)
        };
        if !leads(old.fields, &old.path) {
            return None;
        }
        let with = |source_port| Fields {
            source_port,
            ..old.fields
        };
        let mut ports = ROCE_SOURCE_PORTS.take(MAX_PORTS);
        ports.find(|&port| !self.taken.contains(&with(port)) && leads(with(port), &new.path))
    }
}
