//! Joins pairs of fibres between hosts that exchange data, one after another, as long as that reduces the peak load.

use std::collections::BTreeMap;

use reweave_common::ids::NodeId;

use super::board::{Board, Wiring};
use super::loads::{Bundle, Loads, Net, Sent};

/// Minimum gain per moved fibre, relative to the strain of a full lane.
const MIN_GAIN_PER_MOVE: f64 = 1e-4;
/// The search tries the least loaded fibres of each node.
const FIBRES_TRIED_PER_NODE: usize = 2;

pub(in crate::mend) struct Climb<'b> {
    board: &'b Board<'b>,
    /// Traffic by receiver.
    sent: BTreeMap<NodeId, Vec<(NodeId, Bundle)>>,
    present: &'b Wiring,
    left: usize,
}

struct Tried {
    wiring: Wiring,
    loads: Loads,
    strain: f64,
}

impl<'b> Climb<'b> {
    pub(in crate::mend) fn new(
        board: &'b Board<'b>,
        sent: &[Sent],
        present: &'b Wiring,
        most_evaluations: usize,
    ) -> Self {
        let mut pairs: BTreeMap<_, Bundle> = BTreeMap::new();
        for it in sent {
            let pair = pairs.entry((it.to, it.from)).or_default();
            *pair = pair.and(Bundle {
                rate: it.rate,
                largest: it.rate,
            });
        }
        let mut by_receiver: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for ((to, from), bundle) in pairs {
            by_receiver.entry(to).or_default().push((from, bundle));
        }
        Self {
            board,
            sent: by_receiver,
            present,
            left: most_evaluations,
        }
    }

    /// The best that is reached from what there is, one step after the other.
    pub(in crate::mend) fn best(mut self) -> Option<Wiring> {
        let mut here = self.tried(self.present.clone())?;
        loop {
            let steps = self.steps(&here);
            let next = steps.into_iter().filter_map(|pair| {
                self.left = self.left.checked_sub(1)?;
                self.tried(self.board.joined(&here.wiring, pair))
            });
            let next = next.min_by(|one, other| one.strain.total_cmp(&other.strain));
            match next.filter(|next| next.strain < here.strain) {
                Some(next) => here = next,
                None => return Some(here.wiring),
            }
        }
    }

    /// Returns the strain of the fullest lane and of all that are nearly as full.
    #[cfg(test)]
    pub(in crate::mend) fn strain(&self, wiring: &Wiring) -> Option<f64> {
        Some(self.tried(wiring.clone())?.strain)
    }

    fn tried(&self, wiring: Wiring) -> Option<Tried> {
        let lanes = self.board.lanes(&wiring);
        let net = Net {
            fabric: self.board.fabric,
            lanes: &lanes,
        };
        let loads = net.even(&self.sent).filter(|_| net.joins_all())?;
        let lanes = lanes.iter().flatten().zip(loads.iter().flatten());
        let fullness = lanes.map(|(lane, load)| load.load() / lane.rate);
        let strain = fullness.map(|it| it * it * it * it).sum::<f64>();
        let moved = self.present.differs(&wiring) as f64;
        Some(Tried {
            strain: strain + MIN_GAIN_PER_MOVE * moved,
            wiring,
            loads,
        })
    }

    /// Returns pairs of fibres whose nodes exchange data.
    fn steps(&self, here: &Tried) -> Vec<[usize; 2]> {
        let carried = self.carried(here);
        let pairs = self.sent.iter();
        let pairs = pairs.flat_map(|(&to, from)| from.iter().map(move |(from, _)| [*from, to]));
        let mut steps: Vec<_> = pairs
            .flat_map(|[from, to]| {
                let [ones, others] = [from, to].map(|node| self.idlest(node, &carried));
                let meet = ones.into_iter().flat_map(move |one| {
                    let others = others.clone().into_iter();
                    others.map(move |other| [one.min(other), one.max(other)])
                });
                meet.collect::<Vec<_>>()
            })
            .collect();
        let may_step = |[one, other]: &[usize; 2]| {
            self.board.may_meet(*one, *other) && here.wiring.0[*one] != Some(*other)
        };
        steps.retain(may_step);
        steps.sort_unstable();
        steps.dedup();
        steps
    }

    /// Returns the load of each plug in its fuller direction.
    fn carried(&self, here: &Tried) -> Vec<f64> {
        let mut carried = vec![0.0f64; self.board.plugs.len()];
        let lanes = self.board.lanes(&here.wiring);
        for (lane, load) in lanes.iter().flatten().zip(here.loads.iter().flatten()) {
            let ends = lane.plug.into_iter();
            for end in ends
                .flat_map(|place| [Some(place), here.wiring.0[place]])
                .flatten()
            {
                carried[end] = carried[end].max(load.rate);
            }
        }
        carried
    }

    /// Returns a node's least loaded fibres at each optical switch.
    fn idlest(&self, node: NodeId, carried: &[f64]) -> Vec<usize> {
        let mut by_switch: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (place, plug) in self.board.plugs.iter().enumerate() {
            if plug.node == node {
                by_switch.entry(plug.optical).or_default().push(place);
            }
        }
        let idlest = by_switch.into_values().flat_map(|mut places| {
            places.sort_by(|one, other| carried[*one].total_cmp(&carried[*other]));
            places.truncate(FIBRES_TRIED_PER_NODE);
            places
        });
        idlest.collect()
    }
}
