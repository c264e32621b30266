//! Batch by batch: a flow that has been there in an earlier one stays where it went then.

use std::collections::BTreeSet;

use reweave_common::ids::LinkId;

use super::Options;
use super::moments::{Moment, batches};
use super::problem::{Sorted, worth};
use crate::assign::{self, Solution};
use crate::paths::Atlas;
use crate::paths::listed::Listed;

#[derive(Default)]
pub(super) struct Planning {
    pub(super) moved: Vec<Listed>,
    /// Flows that cannot leave a drained link.
    pub(super) stuck: BTreeSet<(usize, LinkId)>,
    pub(super) elephants: usize,
    pub(super) solution: Solution,
}

/// Returns the paths of all flows after the moves.
pub(super) fn planned(atlas: &mut Atlas<'_>, flows: &[Listed], options: &Options) -> Planning {
    let batches = batches(atlas, flows, options);
    // Many moments take no longer than one: each step costs this many times as much where they are together.
    let moments = batches.iter().map(Vec::len).sum::<usize>();
    let of_batch = Options {
        work: options.work.shared_by(moments.max(1)),
        ..options.clone()
    };
    let mut planning = Planning {
        moved: flows.to_vec(),
        ..Planning::default()
    };
    let (mut fixed, mut solutions) = (BTreeSet::new(), Vec::new());
    for batch in &batches {
        solutions.push(planning.plan(atlas, batch, &fixed, &of_batch));
        fixed.extend(batch.iter().flatten().copied());
    }
    let mut plan = BatchPlan {
        atlas,
        flows,
        batches: &batches,
        options,
    };
    planning.solution = match solutions.len() {
        0 | 1 => solutions.pop().unwrap_or_default(),
        _ => {
            plan.take_harm_back(&mut planning.moved);
            plan.judged(&planning.moved, &solutions)
        }
    };
    planning
}

impl Planning {
    fn plan(
        &mut self,
        atlas: &mut Atlas<'_>,
        batch: &[Moment],
        fixed: &BTreeSet<usize>,
        options: &Options,
    ) -> Solution {
        let is_open = |place: usize| !fixed.contains(&place);
        let sorted = Sorted::new(atlas, &self.moved, batch, &is_open, options);
        let solution = assign::solve(&sorted.problem);
        let stuck = sorted.stuck.iter();
        self.stuck
            .extend(stuck.map(|&(place, link)| (self.moved[place].id, link)));
        for (place, path) in sorted.moved(atlas, &self.moved, &solution.ways) {
            self.moved[place].path = path;
        }
        self.elephants += sorted.problem.flows.len();
        solution
    }
}

/// Several batches: each knows nothing of those after it.
struct BatchPlan<'c, 'f> {
    atlas: &'c mut Atlas<'f>,
    /// Flows before the moves.
    flows: &'c [Listed],
    batches: &'c [Vec<Moment>],
    options: &'c Options,
}

impl BatchPlan<'_, '_> {
    /// Until no moment's fullest link is fuller than that of this moment was.
    fn take_harm_back(&self, moved: &mut [Listed]) {
        loop {
            let harmful: BTreeSet<_> = self
                .moments()
                .flat_map(|it| self.harmful(it, moved))
                .collect();
            if harmful.is_empty() {
                return;
            }
            for flow in harmful {
                moved[flow].path.clone_from(&self.flows[flow].path);
            }
        }
    }

    fn moments(&self) -> impl Iterator<Item = &Moment> {
        self.batches.iter().flatten()
    }

    /// Returns moved flows on links that are now fuller than any was before, if they can move back.
    fn harmful(&self, moment: &Moment, moved: &[Listed]) -> Vec<usize> {
        let [before, after] = [self.flows, moved].map(|flows| self.fullness(moment, flows));
        let fullest = before.into_iter().fold(0.0, f64::max) * (1.0 + 1e-9);
        let may_go_back = |flow: usize| {
            let mut old = self.flows[flow].path.iter();
            moved[flow].path != self.flows[flow].path
                && !old.any(|hop| self.options.drained.contains(&hop.link))
        };
        let is_too_full = |flow: usize| {
            let mut hops = moved[flow].path.iter();
            hops.any(|&hop| after[self.atlas.index(hop)] > fullest)
        };
        let flows = moment.iter().copied();
        flows
            .filter(|&flow| may_go_back(flow) && is_too_full(flow))
            .collect()
    }

    /// Returns load divided by worth, by hop.
    fn fullness(&self, moment: &Moment, flows: &[Listed]) -> Vec<f64> {
        let mut fullness = vec![0.0; self.atlas.hops()];
        for &flow in moment {
            for &hop in &flows[flow].path {
                let worth = worth(self.atlas.fabric, hop.link, self.options);
                fullness[self.atlas.index(hop)] += flows[flow].bytes as f64 / worth;
            }
        }
        fullness
    }

    /// Judges the result against the bound for all flows together; a proof for each batch is none for all.
    fn judged(&mut self, moved: &[Listed], solutions: &[Solution]) -> Solution {
        let pairs = self.flows.iter().zip(moved);
        let moves = pairs.filter(|(old, new)| old.path != new.path).count();
        let levelling = solutions.iter().map(|it| it.levelling).sum::<usize>();
        let least_moves = solutions.iter().map(|it| it.least_moves).max();
        let mut whole = Solution {
            moves,
            levelling: levelling.min(moves),
            least_moves: least_moves.unwrap_or(0).min(moves),
            ..Solution::default()
        };
        for batch in self.batches {
            let [before, after] = [self.flows, moved].map(|flows| {
                let sorted = Sorted::new(self.atlas, flows, batch, &|_| true, self.options);
                assign::as_is(&sorted.problem)
            });
            whole.before = whole.before.max(before.before);
            whole.after = whole.after.max(after.after);
            whole.bound = whole.bound.max(after.bound);
        }
        whole.gap = whole.after.over(whole.bound);
        whole
    }
}
