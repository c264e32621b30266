//! Breakdown of the time of each rank.

use std::collections::BTreeMap;

use reweave_common::ids::Rank;
use reweave_common::iteration::{Iteration, NameId, TaskWork};

use super::evaluation::{Exposed, RankTime};
use super::lowering::Timeline;
use crate::engine::SimTime;

/// Something of a rank begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Change {
    at: SimTime,
    /// Nothing but computing has no name.
    name: Option<NameId>,
    begins: bool,
}

/// The time of each rank, and what ranks wait for on average.
pub(super) fn of_ranks(
    iteration: &Iteration,
    timeline: &Timeline,
) -> (Vec<RankTime>, Vec<Exposed>) {
    let mut exposed = vec![0.0; iteration.names().len()];
    let changes = changes(iteration, timeline).into_iter();
    let ranks: Vec<_> = changes
        .map(|mut changes| {
            changes.sort_unstable();
            of_rank(&changes, timeline.end, &mut exposed)
        })
        .collect();
    let mut exposed: Vec<_> = iteration
        .names()
        .iter()
        .zip(exposed)
        .filter(|(_, ms)| *ms > 0.0)
        .map(|(name, ms)| Exposed {
            name: name.clone(),
            ms: ms / ranks.len() as f64,
        })
        .collect();
    exposed.sort_by(|a, b| b.ms.total_cmp(&a.ms));
    (ranks, exposed)
}

fn changes(iteration: &Iteration, timeline: &Timeline) -> Vec<Vec<Change>> {
    let mut changes = vec![Vec::new(); iteration.ranks()];
    for (id, task) in iteration.tasks() {
        let [ready, start, finish] =
            [&timeline.ready, &timeline.start, &timeline.finish].map(|at| at[id.index()]);
        let mut lasts = |rank: Rank, from: SimTime, name| {
            let of_rank = &mut changes[rank.index()];
            for (at, begins) in [(from, true), (finish, false)] {
                of_rank.push(Change { at, name, begins });
            }
        };
        let name = Some(task.name);
        match task.work {
            TaskWork::Compute { rank, .. } => lasts(rank, start, None),
            TaskWork::Delay { .. } => {}
            TaskWork::Transfer { from, to, .. } => {
                lasts(from, ready, name);
                lasts(to, ready, name);
            }
            TaskWork::Collective { group, .. } => {
                let group = iteration.group(group).iter();
                group.for_each(|&member| lasts(member, ready, name));
            }
        }
    }
    changes
}

/// Adds to what is exposed, by name, and sums up the rank.
fn of_rank(changes: &[Change], end: SimTime, exposed: &mut [f64]) -> RankTime {
    let mut time = RankTime::default();
    let (mut computing, mut under_way) = (0, BTreeMap::<NameId, u32>::new());
    let mut before = SimTime::ZERO;
    let ends = [Change {
        at: end,
        name: None,
        begins: true,
    }];
    for change in changes.iter().chain(&ends) {
        let ms = change.at.since(before).millis();
        before = change.at;
        if computing > 0 {
            time.compute_ms += ms;
        } else if under_way.is_empty() {
            time.stalled_ms += ms;
        } else {
            time.exposed_ms += ms;
            let all = f64::from(under_way.values().sum::<u32>());
            for (name, &count) in &under_way {
                exposed[name.index()] += ms * f64::from(count) / all;
            }
        }
        apply(change, &mut computing, &mut under_way);
    }
    time
}

fn apply(change: &Change, computing: &mut i32, under_way: &mut BTreeMap<NameId, u32>) {
    match (change.name, change.begins) {
        (None, true) => *computing += 1,
        (None, false) => *computing -= 1,
        (Some(name), true) => *under_way.entry(name).or_default() += 1,
        (Some(name), false) => {
            let count = under_way.entry(name).or_insert(1);
            *count -= 1;
            if *count == 0 {
                under_way.remove(&name);
            }
        }
    }
}
