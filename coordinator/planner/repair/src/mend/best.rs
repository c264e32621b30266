//! The moves worth making.
//!
//! One choice of moves beats another when, of the flows for which the two differ, the slowest is faster. So a flow that
//! nothing can help hides no other flow's gain, and no flow is slowed down to where those are that gain by it.
//! Differences below what the policy calls worthwhile are none.

use std::collections::{BTreeMap, BTreeSet};

use reweave_common::flow::Protocol;
use reweave_common::ids::NodeId;
use reweave_common::plan::{LostBecause, Move};
use reweave_common::snapshot::FlowState;
use reweave_common::units::Rate;

use super::detour::Detour;
use super::model::{Flow, Model};
use crate::maxmin::Share;
use crate::paths::ecmp::{Ecmp, Fields};
use crate::paths::listed::{Listed, Movable};
use crate::paths::{Atlas, Destination};
use crate::rebalance::{Options, rebalance};

/// Detours by flow.
pub(super) type Detours = BTreeMap<usize, Detour>;

/// All choices of so few moves are weighed; of more, each move by itself.
const MAX_EXHAUSTIVE_MOVES: usize = 8;

#[cfg(test)]
thread_local! {
    /// Runs of the optimizer in this thread.
    pub(super) static RUNS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// A choice of moves and what it brings.
#[derive(Debug, Clone)]
pub(super) struct Weighed {
    pub(super) detours: Detours,
    pub(super) shares: Vec<Share>,
}

pub(super) struct Answer {
    pub(super) present: Weighed,
    pub(super) best: Weighed,
    /// Rejected choices, one for each other number of moves, with reasons.
    pub(super) lost: Vec<(Weighed, LostBecause)>,
}

impl Weighed {
    pub(super) fn moves(&self) -> Vec<Move> {
        self.detours.values().map(Detour::as_move).collect()
    }
}

impl Answer {
    pub(super) fn is_a_change(&self) -> bool {
        !self.best.detours.is_empty()
    }
}

/// Finds the fewest moves after which nothing is fuller than it must be, and of these the fewest that
/// bring as much. None needs a pin at one of these nodes.
pub(super) fn best(
    model: &Model<'_>,
    atlas: &mut Atlas<'_>,
    unpinnable: &BTreeSet<NodeId>,
) -> Answer {
    #[cfg(test)]
    RUNS.set(RUNS.get() + 1);
    let weighing = Weighing { model };
    let present = weighing.weigh(Detours::new());
    let all = detours(model, atlas, unpinnable);
    let mut tried = match all.len() {
        ..=MAX_EXHAUSTIVE_MOVES => weighing.choices(&present, &all),
        _ => weighing.one_by_one(&present, all),
    };
    let best = tried.best;
    tried.others.retain(|other| other.detours != best.detours);
    let others = tried.others.into_iter().map(|other| {
        let because = weighing.why_lost(&other, &best);
        (other, because)
    });
    Answer {
        lost: others.collect(),
        present,
        best,
    }
}

/// The moves that rebalancing asks for.
fn detours(model: &Model<'_>, atlas: &mut Atlas<'_>, unpinnable: &BTreeSet<NodeId>) -> Detours {
    let appetites = model.appetites(atlas);
    let is_held = |flow: &Flow<'_>| chosen_among(atlas, flow, unpinnable);
    let held: Vec<_> = model.flows.iter().map(is_held).collect();
    let flows = model.flows.iter().zip(&appetites).enumerate();
    let listed = flows.map(|(id, (flow, appetite))| Listed {
        id,
        ends: [flow.state.from, flow.state.to],
        nic: flow.state.nic,
        fields: fields(flow.state),
        bytes: appetite.bits_per_s(),
        path: flow.path.to_vec(),
        traced: true,
        job: None,
        movable: if flow.elephant && !held[id] {
            Movable::Pin
        } else {
            Movable::Never
        },
        during_us: [None; 2],
    });
    let listed: Vec<_> = listed.collect();
    let balanced = rebalance(atlas, &listed, &Ecmp::default(), &options(model, atlas));
    let detour = |made: crate::rebalance::Move| {
        let flow = made.flow;
        (flow, Detour::new(model.flows[flow].state.flow, made, atlas))
    };
    let detours = balanced.moves.into_iter().map(detour);
    let is_pinnable = |detour: &Detour| detour.pins.iter().all(|it| !unpinnable.contains(&it.at));
    detours.filter(|(_, it)| is_pinnable(it)).collect()
}

/// Whether one of these nodes chooses among several links for the flow.
fn chosen_among(atlas: &mut Atlas<'_>, flow: &Flow<'_>, nodes: &BTreeSet<NodeId>) -> bool {
    let to = Destination::from(flow.state);
    let mut passed = flow.path.iter().map(|hop| hop.from);
    passed.any(|at| nodes.contains(&at) && atlas.choices(at, to).len() > 1)
}

fn fields(state: &FlowState) -> Fields {
    let [source, destination] = [state.from, state.to].map(|node| node.index() as u32);
    Fields {
        source,
        destination,
        source_port: state.flow.source.port(),
        destination_port: state.flow.destination.port(),
        protocol: match state.flow.protocol {
            Protocol::Tcp => 6,
            Protocol::Udp => 17,
        },
    }
}

fn options(model: &Model<'_>, atlas: &Atlas<'_>) -> Options {
    let hops = (0..atlas.hops()).map(|index| atlas.hop(index));
    let strangers = hops.clone().map(|hop| {
        let left = model.capacities[atlas.index(hop)].bits_per_s();
        (hop, model.observed.nominal(hop).bits_per_s() - left)
    });
    Options {
        closed: hops.filter(|hop| !model.observed.is_usable(*hop)).collect(),
        strangers: strangers.collect(),
        lossy: model.observed.snapshot.lossy.clone(),
        // A hop that has enough for all holds no flow back, however even it is.
        enough: 1.0,
        least_gain: 0.0,
        elephant_share: 0.0,
        ..Options::default()
    }
}

struct Weighing<'m, 's> {
    model: &'m Model<'s>,
}

/// Choices that were tried.
struct Tried {
    best: Weighed,
    others: Vec<Weighed>,
}

impl Weighing<'_, '_> {
    fn weigh(&self, detours: Detours) -> Weighed {
        let shares = self.model.shares(&detours);
        Weighed { detours, shares }
    }

    /// All choices of these moves, those of fewer moves first: more must be better.
    fn choices(&self, present: &Weighed, all: &Detours) -> Tried {
        let mut tried = Tried {
            best: present.clone(),
            others: vec![present.clone()],
        };
        for moves in 1..=all.len() {
            let choices = (0..1u32 << all.len()).filter(|it| it.count_ones() as usize == moves);
            let mut level: Option<Weighed> = None;
            for choice in choices {
                let chosen = all.iter().enumerate();
                let chosen = chosen.filter(|(place, _)| choice & (1 << place) != 0);
                let made = chosen.map(|(_, (&flow, detour))| (flow, detour.clone()));
                let next = self.weigh(made.collect());
                if level.as_ref().is_none_or(|best| self.beats(&next, best)) {
                    level = Some(next);
                }
            }
            tried.others.extend(level.clone());
            tried.best = level
                .filter(|level| self.beats(level, &tried.best))
                .unwrap_or(tried.best);
        }
        tried
    }

    /// All moves at once, without useless ones. Returns none if they do harm together.
    fn one_by_one(&self, present: &Weighed, all: Detours) -> Tried {
        let whole = self.weigh(all);
        let mut best = whole.clone();
        let most = self.model.policy().most_evaluations;
        for flow in whole.detours.keys().take(most) {
            let mut fewer = best.detours.clone();
            fewer.remove(flow);
            let without = self.weigh(fewer);
            if !self.beats(&best, &without) {
                best = without;
            }
        }
        if !self.beats(&best, present) {
            best = present.clone();
        }
        Tried {
            others: vec![present.clone(), whole],
            best,
        }
    }

    fn beats(&self, one: &Weighed, other: &Weighed) -> bool {
        let least = 1.0 + self.model.policy().least_gain;
        let faster = |a: Rate, b: Rate| a.bits_per_s() as f64 > b.bits_per_s() as f64 * least;
        let pairs = one.shares.iter().zip(&other.shares);
        let pairs = pairs.map(|(one, other)| (one.rate, other.rate));
        let differing = pairs.filter(|&(a, b)| faster(a, b) || faster(b, a));
        let slowest = differing.reduce(|(a, b), (c, d)| (a.min(c), b.min(d)));
        slowest.is_some_and(|(a, b)| faster(a, b))
    }

    fn why_lost(&self, other: &Weighed, best: &Weighed) -> LostBecause {
        let more_moves = other.detours.len() > best.detours.len();
        if more_moves && !self.beats(best, other) {
            LostBecause::MoreMoves
        } else {
            LostBecause::Slower
        }
    }
}
