//! Another path for a flow, and the pins for it.

use reweave_common::flow::FlowKey;
use reweave_common::plan::{Move, Pin};
use reweave_common::snapshot::Hop;

use super::model::{Flow, Model};
use crate::paths::{Atlas, HopIndex};
use crate::rebalance::{self, By};

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Detour {
    flow: FlowKey,
    from: Hop,
    to: Hop,
    pub(super) path: Vec<Hop>,
    pub(super) hops: Vec<HopIndex>,
    pub(super) pins: Vec<Pin>,
}

impl Detour {
    pub(super) fn new(flow: FlowKey, made: rebalance::Move, atlas: &Atlas<'_>) -> Self {
        let hops = match &made.by {
            By::Pins(hops) => &hops[..],
            By::SourcePort(_) => &[],
        };
        let pin = |hop: &Hop| Pin {
            flow,
            at: hop.from,
            link: hop.link,
        };
        Self {
            flow,
            from: made.from,
            to: made.to,
            hops: made.path.iter().map(|&hop| atlas.index(hop)).collect(),
            pins: hops.iter().map(pin).collect(),
            path: made.path,
        }
    }

    /// Returns a detour without pins, which can only be weighed. None if it is the present path.
    pub(super) fn along(
        flow: FlowKey,
        present: &[Hop],
        path: Vec<Hop>,
        atlas: &Atlas<'_>,
    ) -> Option<Self> {
        let mut both = present.iter().zip(&path);
        let (&from, &to) = both.find(|(old, new)| old != new)?;
        Some(Self {
            flow,
            from,
            to,
            hops: path.iter().map(|&hop| atlas.index(hop)).collect(),
            pins: Vec::new(),
            path,
        })
    }

    pub(super) fn as_move(&self) -> Move {
        Move {
            flow: self.flow,
            from: self.from,
            to: self.to,
        }
    }

    /// Returns the hops shared with the present path.
    pub(super) fn shared(&self) -> impl Iterator<Item = &Hop> {
        self.path.iter().take_while(|hop| **hop != self.to)
    }
}

/// Returns all paths from end to end over which switches could send a flow.
pub(super) fn ways(model: &Model<'_>, atlas: &mut Atlas<'_>, flow: &Flow<'_>) -> Vec<Vec<Hop>> {
    let [Some(&first), Some(&last)] = [flow.path.first(), flow.path.last()] else {
        return Vec::new();
    };
    let door = atlas.door(flow.state);
    let last = Some(last).filter(|_| door != flow.state.to);
    let between = atlas.ways(atlas.far(first), door).into_iter();
    let is_usable = |way: &Vec<Hop>| way.iter().all(|&hop| model.observed.is_usable(hop));
    let whole = |way: Vec<Hop>| [first].into_iter().chain(way).chain(last).collect();
    between.filter(is_usable).map(whole).collect()
}
