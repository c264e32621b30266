//! The critical path of an iteration.

use std::collections::BTreeMap;

use reweave_common::ids::Rank;
use reweave_common::iteration::{Iteration, NameId, TaskId, TaskWork};

use super::evaluation::{Segment, Stretch};
use super::lowering::Timeline;
use crate::engine::SimTime;

/// Goes back from the end to the beginning: each task is preceded by the one that it waited for last, for its data or
/// for its processor. Sums up by kind and name.
pub(super) fn critical_path(iteration: &Iteration, timeline: &Timeline) -> Vec<Segment> {
    let before = Before::of(iteration, timeline);
    let mut sums: BTreeMap<(Stretch, NameId), (SimTime, usize)> = BTreeMap::new();
    let ends_last = |(id, _): &(TaskId, _)| timeline.finish[id.index()] == timeline.end;
    let mut at = iteration.tasks().find(ends_last).map(|(id, _)| id);
    while let Some(task) = at {
        let (stretch, since) = piece(iteration, timeline, task);
        let (time, tasks) = sums
            .entry((stretch, iteration.task(task).name))
            .or_default();
        *time = time.plus(timeline.finish[task.index()].since(since));
        *tasks += 1;
        at = before.of_task(timeline, task, since);
    }
    let mut segments: Vec<_> = sums
        .into_iter()
        .map(|((stretch, name), (time, tasks))| Segment {
            stretch,
            name: iteration.name(name).to_owned(),
            ms: time.millis(),
            tasks,
        })
        .collect();
    segments.sort_by(|a, b| b.ms.total_cmp(&a.ms));
    segments
}

/// Returns the kind of a task's time and its start: a computation starts when it has the processor, any other task when
/// it is ready.
fn piece(iteration: &Iteration, timeline: &Timeline, task: TaskId) -> (Stretch, SimTime) {
    let index = task.index();
    match iteration.task(task).work {
        TaskWork::Compute { .. } => (Stretch::Compute, timeline.start[index]),
        TaskWork::Delay { .. } => (Stretch::Delay, timeline.ready[index]),
        _ => (Stretch::Communication, timeline.ready[index]),
    }
}

/// Possible predecessors of each task.
struct Before {
    tasks: Vec<Vec<TaskId>>,
    /// Computations of each rank by end time.
    on_rank: Vec<BTreeMap<SimTime, TaskId>>,
    rank: Vec<Option<Rank>>,
}

impl Before {
    fn of(iteration: &Iteration, timeline: &Timeline) -> Self {
        let mut before = Self {
            tasks: vec![Vec::new(); iteration.tasks().len()],
            on_rank: vec![BTreeMap::new(); iteration.ranks()],
            rank: vec![None; iteration.tasks().len()],
        };
        for (id, task) in iteration.tasks() {
            for next in &task.then {
                before.tasks[next.index()].push(id);
            }
            if let TaskWork::Compute { rank, time } = task.work {
                before.rank[id.index()] = Some(rank);
                // One that takes no time would be said to come before itself.
                if !time.is_zero() {
                    before.on_rank[rank.index()].insert(timeline.finish[id.index()], id);
                }
            }
        }
        before
    }

    fn of_task(&self, timeline: &Timeline, task: TaskId, since: SimTime) -> Option<TaskId> {
        if since == SimTime::ZERO {
            return None;
        }
        let ended_then = |before: &&TaskId| timeline.finish[before.index()] == since;
        let waited_for = self.tasks[task.index()].iter().find(ended_then).copied();
        let on_processor = || {
            let rank = self.rank[task.index()]?;
            self.on_rank[rank.index()].get(&since).copied()
        };
        waited_for.or_else(on_processor)
    }
}
